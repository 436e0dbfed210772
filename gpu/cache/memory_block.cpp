#include "gpu/cache/memory_block.hpp"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

namespace kvern::gpu {

result<memory_block> memory_block::create(std::uint64_t bytes, const char* purpose, memory_use use) {
  memory_block block;
  if (bytes == 0) return block;
  void* p = MAP_FAILED;
  if (bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()))
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return fail("out_of_memory", fmt::format("{} bytes for {} could not be reserved: lower the setting that sizes it, "
                                             "or free memory.",
                                             bytes, purpose));
  if (use == memory_use::dense) madvise(p, bytes, MADV_HUGEPAGE);  // a refusal changes nothing
  block.data_ = static_cast<std::byte*>(p);
  block.size_ = bytes;
  return block;
}

memory_block memory_block::part(std::shared_ptr<const memory_block> whole, std::uint64_t first, std::uint64_t bytes) {
  memory_block block;
  block.data_ = whole->data_ + first;
  block.size_ = bytes;
  block.whole_ = std::move(whole);
  return block;
}

memory_block::~memory_block() {
  if (data_ != nullptr && whole_ == nullptr) munmap(data_, size_);
}

memory_block::memory_block(memory_block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      whole_(std::move(other.whole_)) {}

memory_block& memory_block::operator=(memory_block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(whole_, other.whole_);
  return *this;
}

void memory_block::prefer_nodes(std::span<const int> nodes) {
  constexpr int bits = sizeof(unsigned long) * CHAR_BIT;
  unsigned long mask[1024 / bits] = {};  // as many nodes as Linux can have
  for (const int node : nodes)
    if (node >= 0 && node < 1024) mask[node / bits] |= 1UL << (node % bits);
  // Not glibc's: its wrapper lives in libnuma. The kernel takes one bit less than it is told.
  if (data_ != nullptr && !nodes.empty()) syscall(SYS_mbind, data_, size_, MPOL_INTERLEAVE, mask, 1025UL, 0U);
}

void memory_block::fill_with_noise(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t at = 0; at < size_; at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random();
    std::memcpy(data_ + at, &bits, std::min<std::uint64_t>(sizeof bits, size_ - at));
  }
}

}  // namespace kvern::gpu
