#include "gpu/cache/memory_arena.hpp"

#include <utility>

namespace kvern::gpu {
namespace {

constexpr std::uint64_t alignment = 64;

}  // namespace

result<memory_block> memory_arena::take(std::uint64_t bytes, const char* purpose) {
  if (bytes == 0 || bytes >= chunk_bytes / 2) return memory_block::create(bytes, purpose);
  const std::uint64_t room = (bytes + alignment - 1) / alignment * alignment;
  if (chunk_ == nullptr || chunk_->size() - taken_ < room) {
    auto chunk = memory_block::create(chunk_bytes, purpose);
    if (!chunk) return std::unexpected(std::move(chunk.error()));
    chunk_ = std::make_shared<const memory_block>(std::move(*chunk));
    taken_ = 0;
  }
  return memory_block::part(chunk_, std::exchange(taken_, taken_ + room), bytes);
}

}  // namespace kvern::gpu
