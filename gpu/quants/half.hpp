#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#ifdef __F16C__
#include <immintrin.h>
#endif

/// Conversions between float32 and the 16-bit floats, as bits. Exact where the target can hold the value (subnormals
/// kept, signed zeros too); else rounded to the nearest, ties to even. A NaN stays a NaN and becomes quiet. Pure, so
/// safe from any thread; the rounding mode is taken to be the default one.
///
/// All are forced inline: files compiled for different instruction sets include this header, and an out-of-line copy
/// for one must not be linked into another.
namespace kvern::gpu {

namespace detail {

/// `yes` or `no`, by arithmetic: GCC moves a float operation that only one side needs into a branch, and a loop with a
/// branch does not become vector code.
[[gnu::always_inline]] constexpr std::uint32_t pick(bool condition, std::uint32_t yes, std::uint32_t no) {
  return no ^ ((yes ^ no) & (0U - static_cast<std::uint32_t>(condition)));
}

[[gnu::always_inline]] constexpr float plain_f16_to_f32(std::uint16_t half) {
  constexpr std::uint32_t smallest_normal = 113U << 23;  // 2^-14, as float32 bits
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = half & 0x7C00U;
  const std::uint32_t shifted = (half & 0x7FFFU) << 13;
  const std::uint32_t normal = shifted + (112U << 23);
  // (1 + m) * 2^-14 - 2^-14: exact, and no subnormal float32 on the way.
  const float subnormal = std::bit_cast<float>(shifted | smallest_normal) - std::bit_cast<float>(smallest_normal);
  const std::uint32_t quiet = pick(shifted > (31U << 23), 0x400000U, 0);
  const std::uint32_t finite = pick(exponent == 0, std::bit_cast<std::uint32_t>(subnormal), normal);
  const std::uint32_t magnitude = pick(exponent == 0x7C00U, shifted | 0x7F800000U | quiet, finite);
  return std::bit_cast<float>(sign | magnitude);
}

[[gnu::always_inline]] constexpr std::uint16_t plain_f32_to_f16(float value) {
  constexpr std::uint32_t infinity = 255U << 23;
  constexpr std::uint32_t overflow = 0x477FF000U;        // 65520: from here on the nearest is infinity
  constexpr std::uint32_t smallest_normal = 113U << 23;  // 2^-14
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // The unit of 0.5f's last place is 2^-24, that of half subnormals: the addition rounds as wanted.
  const std::uint32_t small = pick(magnitude < smallest_normal, magnitude, 0);
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t finite = pick(magnitude < smallest_normal, subnormal, normal);
  const std::uint32_t special = pick(magnitude > infinity, 0x7E00U | ((magnitude >> 13) & 0x3FFU), 0x7C00U);
  return static_cast<std::uint16_t>(sign | pick(magnitude >= overflow, special, finite));
}

}  // namespace detail

[[gnu::always_inline]] constexpr float f16_to_f32(std::uint16_t half) {
#ifdef __F16C__
  if
    !consteval { return _cvtsh_ss(half); }
#endif
  return detail::plain_f16_to_f32(half);
}

[[gnu::always_inline]] constexpr std::uint16_t f32_to_f16(float value) {
#ifdef __F16C__
  if
    !consteval { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#endif
  return detail::plain_f32_to_f16(value);
}

[[gnu::always_inline]] constexpr float bf16_to_f32(std::uint16_t brain) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16);
}

[[gnu::always_inline]] constexpr std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// Many at once: `to.size()` values; `from` holds as many. The same bits as one by one.
[[gnu::always_inline]] inline void f16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= to.size(); i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + i));
    _mm256_storeu_ps(to.data() + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < to.size(); ++i) to[i] = f16_to_f32(from[i]);
}

[[gnu::always_inline]] inline void f32_to_f16(std::span<const float> from, std::span<std::uint16_t> to) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= to.size(); i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(from.data() + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.data() + i), halves);
  }
#endif
  for (; i < to.size(); ++i) to[i] = f32_to_f16(from[i]);
}

[[gnu::always_inline]] inline void bf16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = bf16_to_f32(from[i]);
}

[[gnu::always_inline]] inline void f32_to_bf16(std::span<const float> from, std::span<std::uint16_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = f32_to_bf16(from[i]);
}

}  // namespace kvern::gpu
