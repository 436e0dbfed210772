#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"

namespace kvern::gpu {

/// How a block will be used. Dense: read from end to end, so huge pages are asked for (fewer TLB misses). Sparse:
/// filled bit by bit, so what is resident should follow what is used.
enum class memory_use { dense, sparse };

/// Anonymous zeroed memory, aligned to the system's pages and to 64 bytes. The kernel backs it page by page at the
/// first touch, so a large block costs address space only until it is used. Movable, owned.
class memory_block {
 public:
  /// Errors: `out_of_memory`, naming `purpose` and the size.
  static result<memory_block> create(std::uint64_t bytes, const char* purpose, memory_use use = memory_use::dense);

  /// Bytes [first, first + bytes) of `whole`, which lives as long as any part of it. `first` is a multiple of 64.
  static memory_block part(std::shared_ptr<const memory_block> whole, std::uint64_t first, std::uint64_t bytes);

  memory_block() = default;
  ~memory_block();
  memory_block(memory_block&& other) noexcept;
  memory_block& operator=(memory_block&& other) noexcept;
  memory_block(const memory_block&) = delete;
  memory_block& operator=(const memory_block&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Asks for memory of these NUMA nodes for what has not been touched yet, spread over them when there are several. A
  /// wish: a system that refuses, or has no such node, gives any memory.
  void prefer_nodes(std::span<const int> nodes);

  /// Overwrites everything with random bits of `seed`; NaNs and infinities of every float type are among them.
  void fill_with_noise(std::uint64_t seed);

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::shared_ptr<const memory_block> whole_;  // of which this is a part
};

}  // namespace kvern::gpu
