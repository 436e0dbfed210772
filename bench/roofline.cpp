#include "bench/roofline.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvern::bench {
namespace {

std::uint64_t read_words(std::span<const std::byte> data) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + sizeof sums <= data.size(); at += sizeof sums) {
    std::uint64_t words[8];
    std::memcpy(words, data.data() + at, sizeof words);
    for (int i = 0; i < 8; ++i) sums[i] ^= words[i];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t s : sums) all ^= s;
  return all;
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) std::uint64_t read_avx512(std::span<const std::byte> data) {
  const auto* const p = reinterpret_cast<const char*>(data.data());
  __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  for (std::size_t at = 0; at + 256 <= data.size(); at += 256) {
    _mm_prefetch(p + at + 4096, _MM_HINT_T0);
    _mm_prefetch(p + at + 4096 + 64, _MM_HINT_T0);
    _mm_prefetch(p + at + 4096 + 128, _MM_HINT_T0);
    _mm_prefetch(p + at + 4096 + 192, _MM_HINT_T0);
    for (std::size_t i = 0; i < 4; ++i) sums[i] = _mm512_xor_si512(sums[i], _mm512_loadu_si512(p + at + 64 * i));
  }
  std::uint64_t words[8];
  _mm512_storeu_si512(words, _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3])));
  std::uint64_t all = 0;
  for (const std::uint64_t w : words) all ^= w;
  return all;
}

/// Twelve independent chains hide the latency. Assembly, because the compiler would see that they are all equal.
__attribute__((target("avx512f,avx512vnni"))) std::int64_t peak_avx512(std::int64_t rounds) {
  constexpr std::int64_t chains = 12, operations = 64 * 2;
  for (std::int64_t r = 0; r < rounds; ++r) {
    asm volatile(
        "vpdpbusd %%zmm30, %%zmm31, %%zmm0\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm1\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm2\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm3\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm4\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm5\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm6\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm7\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm8\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm9\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm10\n\tvpdpbusd %%zmm30, %%zmm31, %%zmm11" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
  return rounds * chains * operations;
}

#endif

}  // namespace

std::uint64_t read_all(std::span<const std::byte> data) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_avx512(data);
#endif
  return read_words(data);
}

std::int64_t int8_peak(std::int64_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return peak_avx512(rounds);
#endif
  static_cast<void>(rounds);
  return 0;
}

}  // namespace kvern::bench
