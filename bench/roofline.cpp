#include "bench/roofline.hpp"

#include <cstring>

#include "gpu/cpu/matrix.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

// Twelve independent chains hide the latency. Assembly, because the compiler would see that they are all equal.
#define KVERN_CHAIN(op, reg, n) op " %%" reg "14, %%" reg "15, %%" reg #n "\n\t"
#define KVERN_FOUR(op, reg, a, b, c, d) \
  KVERN_CHAIN(op, reg, a) KVERN_CHAIN(op, reg, b) KVERN_CHAIN(op, reg, c) KVERN_CHAIN(op, reg, d)
#define KVERN_TWELVE(op, reg) \
  KVERN_FOUR(op, reg, 0, 1, 2, 3) KVERN_FOUR(op, reg, 4, 5, 6, 7) KVERN_FOUR(op, reg, 8, 9, 10, 11)
#define KVERN_CLOBBERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#endif

namespace kvern::bench {
namespace {

std::uint64_t read_words(std::span<const std::byte> data) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + sizeof sums <= data.size(); at += sizeof sums) {
    std::uint64_t words[8];
    std::memcpy(words, data.data() + at, sizeof words);
    __builtin_prefetch(data.data() + at + 4096);
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

constexpr std::int64_t chains = 12;

__attribute__((target("avx512f,avx512vnni"))) std::int64_t int8_avx512(std::int64_t rounds) {
  for (std::int64_t r = 0; r < rounds; ++r) asm volatile(KVERN_TWELVE("vpdpbusd", "zmm")::: KVERN_CLOBBERS);
  return rounds * chains * 64 * 2;
}

__attribute__((target("avx2,avxvnni"))) std::int64_t int8_avx_vnni(std::int64_t rounds) {
  for (std::int64_t r = 0; r < rounds; ++r) asm volatile(KVERN_TWELVE("%{vex%} vpdpbusd", "ymm")::: KVERN_CLOBBERS);
  return rounds * chains * 32 * 2;
}

/// Whatever they held could be numbers that take the processor longer.
[[gnu::always_inline, gnu::target("avx")]] inline void clear_registers() {
  asm volatile("vzeroall" ::: KVERN_CLOBBERS, "xmm12", "xmm13", "xmm14", "xmm15");
}

__attribute__((target("avx512f"))) std::int64_t float_avx512(std::int64_t rounds) {
  clear_registers();
  for (std::int64_t r = 0; r < rounds; ++r) asm volatile(KVERN_TWELVE("vfmadd231ps", "zmm")::: KVERN_CLOBBERS);
  return rounds * chains * 16 * 2;
}

__attribute__((target("avx2,fma"))) std::int64_t float_avx2(std::int64_t rounds) {
  clear_registers();
  for (std::int64_t r = 0; r < rounds; ++r) asm volatile(KVERN_TWELVE("vfmadd231ps", "ymm")::: KVERN_CLOBBERS);
  return rounds * chains * 8 * 2;
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
  if (__builtin_cpu_supports("avx512vnni")) return int8_avx512(rounds);
  if (gpu::cpu::supported(gpu::cpu::isa::avx_vnni)) return int8_avx_vnni(rounds);
#endif
  static_cast<void>(rounds);
  return 0;
}

std::int64_t float_peak(std::int64_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return float_avx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return float_avx2(rounds);
#endif
  static_cast<void>(rounds);
  return 0;
}

}  // namespace kvern::bench
