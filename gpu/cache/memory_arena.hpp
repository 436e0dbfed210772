#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "gpu/cache/memory_block.hpp"

namespace kvern::gpu {

/// Dense blocks cut one after the other from large ones: a block smaller than a huge page has huge pages too, and what
/// is read in the order in which it was taken is one stream. A large block lives as long as anything cut from it, the
/// arena or not. Not thread-safe.
class memory_arena {
 public:
  /// Sizes of the large blocks; what is not taken of one costs address space only.
  static constexpr std::uint64_t chunk_bytes = 64 << 20;

  /// `bytes` zeroed bytes, aligned to 64. Errors: those of memory_block::create.
  result<memory_block> take(std::uint64_t bytes, const char* purpose);

 private:
  std::shared_ptr<const memory_block> chunk_;
  std::uint64_t taken_ = 0;  // of the chunk
};

}  // namespace kvern::gpu
