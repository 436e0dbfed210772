#pragma once

// Every entry of a kernel table against the scalar reference, bit for bit.

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu::test {

/// Values of all magnitudes, zeros, subnormals; with `wild`, infinities and NaN too.
inline std::vector<float> awkward(std::size_t n, random_source& random, bool wild) {
  std::vector<float> v = random.normal(n);
  for (float& x : v) {
    switch (random.integer(0, wild ? 11 : 9)) {
      case 0:
        x = 0;
        break;
      case 1:
        x = -0.0F;
        break;
      case 2:
        x *= 1e-42F;
        break;
      case 3:
        x *= 1e30F;
        break;
      case 4:
        x *= 1e-30F;
        break;
      case 5:
        x *= 100;
        break;
      case 10:
        x = std::numeric_limits<float>::quiet_NaN();
        break;
      case 11:
        x = random.integer(0, 1) != 0 ? INFINITY : -INFINITY;
        break;
      default:
        break;
    }
  }
  return v;
}

inline void compare_elementwise(const kernels& k, random_source& random) {
  const kernels& reference = scalar_kernels();
  for (const bool wild : {false, true}) {
    for (std::int64_t n = 1; n <= 70; ++n) {
      const auto size = static_cast<std::size_t>(n);
      const std::vector<float> a = awkward(size, random, wild), b = awkward(size, random, wild);
      const std::vector<float> c = random.normal(size), s = random.normal(size);
      const auto both = [&](const std::function<std::vector<float>(const kernels&)>& f) {
        expect_same_bits(f(k), f(reference));
      };
      const auto binary = [&](auto member) {
        both([&](const kernels& t) {
          std::vector<float> out(size);
          (t.*member)(a.data(), b.data(), out.data(), n);
          return out;
        });
      };
      binary(&kernels::silu_mul);
      binary(&kernels::gelu_mul);
      binary(&kernels::add);
      const auto unary = [&](auto member) {
        both([&](const kernels& t) {
          std::vector<float> out(size);
          (t.*member)(a.data(), out.data(), n);
          return out;
        });
      };
      unary(&kernels::exp);
      unary(&kernels::weigh);
      both([&](const kernels& t) {
        std::vector<float> out(2 * size);
        t.soft_cap(a.data(), 50, out.data(), n);
        t.soft_cap(a.data(), 0.3F, out.data() + n, n);
        return out;
      });
      both([&](const kernels& t) {
        std::vector<float> out(size);
        t.rms_norm(a.data(), b.data(), 1e-5F, out.data(), n);
        return out;
      });
      both([&](const kernels& t) {
        std::vector<float> x = a;
        x.insert(x.end(), b.begin(), b.end());
        t.rotate(x.data(), x.data() + n, c.data(), s.data(), n);
        t.rotate_adjacent(x.data(), c.data(), s.data(), n);
        return x;
      });
      both([&](const kernels& t) {
        std::vector<std::uint16_t> h(size);
        t.narrow_half(a.data(), h.data(), n);
        std::vector<float> out(4 * size);
        t.widen_half(h.data(), out.data(), n);
        t.widen_bf16(h.data(), out.data() + n, n);
        t.finish(a.data(), 3.5F, out.data() + 2 * n, n);
        t.narrow_bf16(a.data(), h.data(), n);
        t.widen_bf16(h.data(), out.data() + 3 * n, n);
        return out;
      });
    }
  }
}

inline void compare_half_conversion(const kernels& k) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size()), reference(all.size());
  k.widen_half(all.data(), wide.data(), 65536);
  scalar_kernels().widen_half(all.data(), reference.data(), 65536);
  expect_same_bits(wide, reference);
  std::vector<std::uint16_t> back(all.size()), reference_back(all.size());
  for (const float nudge : {0.9999F, 0.99975F, 1.0F, 1.00024414F, 1.0001F}) {
    std::vector<float> x = reference;
    for (float& value : x) value *= nudge;
    k.narrow_half(x.data(), back.data(), 65536);
    scalar_kernels().narrow_half(x.data(), reference_back.data(), 65536);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) continue;
      ASSERT_EQ(back[i], reference_back[i]) << x[i];
    }
  }
}

struct quantised_rows {
  std::vector<std::int8_t> quants;
  std::vector<float> scales, scaled_sums;
  std::vector<std::int32_t> sums, first_sums;

  /// `tiles` tiles of `rows` rows, one after another.
  quantised_rows(const kernels& k, const std::vector<float>& x, int tiles, int rows, std::int64_t blocks, bool fine)
      : quants(static_cast<std::size_t>(tiles * rows * blocks * (fine ? 64 : 32))),
        scales(static_cast<std::size_t>(tiles * rows * blocks)),
        scaled_sums(scales.size()),
        sums(scales.size()),
        first_sums(scales.size()) {
    for (int r = 0; r < tiles * rows; ++r) {
      const std::int64_t at = r / rows * rows * blocks;
      k.quantise({.x = x.data() + r * blocks * 32,
                  .blocks = blocks,
                  .fine = fine,
                  .rows = rows,
                  .row = r % rows,
                  .quants = quants.data() + at * (fine ? 64 : 32),
                  .scales = scales.data() + at,
                  .scaled_sums = scaled_sums.data() + at,
                  .sums = sums.data() + at,
                  .first_sums = first_sums.data() + at});
    }
  }
  tile_input input() const {
    return {quants.data(), scales.data(), scaled_sums.data(), sums.data(), first_sums.data()};
  }
};

/// Two strips of random bits with finite f16.
inline std::vector<std::byte> random_strips(packing p, const strip_layout& layout, std::int64_t blocks,
                                            random_source& random) {
  const packing_form& form = packing_forms[static_cast<int>(p)];
  auto strips = random.bytes(static_cast<std::size_t>(2 * layout.bytes));
  for (std::int64_t b = 0; b < 2 * blocks; ++b) {
    const std::int64_t in_strip = b % blocks;
    const std::int64_t at =
        b / blocks * layout.bytes + (form.super_blocks ? layout.factors + in_strip / super_block * layout.factor_step
                                                       : layout.scales + in_strip * layout.scale_step);
    for (int i = 0; i < (form.minima ? 32 : 16); ++i)
      strips[static_cast<std::size_t>(at + 2 * i + 1)] &= std::byte{0xbb};
  }
  return strips;
}

inline void compare_tiles(const kernels& k, random_source& random) {
  const kernels& reference = scalar_kernels();
  for (const bool fine : {true, false}) {
    for (const int rows : {1, 2, 4, 8}) {
      for (const std::int64_t blocks : {1, 2, 3, 8, 18}) {
        const int tiles = random.integer(1, rows == 8 ? 10 : 2);
        const auto x = awkward(static_cast<std::size_t>(tiles * rows * blocks * 32), random, blocks == 3);
        const quantised_rows mine(k, x, tiles, rows, blocks, fine), theirs(reference, x, tiles, rows, blocks, fine);
        ASSERT_EQ(mine.quants, theirs.quants);
        ASSERT_EQ(mine.sums, theirs.sums);
        ASSERT_EQ(mine.first_sums, theirs.first_sums);
        expect_same_bits(mine.scales, theirs.scales);
        expect_same_bits(mine.scaled_sums, theirs.scaled_sums);
        for (int n = 0; n < static_cast<int>(std::size(packing_forms)); ++n) {
          const auto p = static_cast<packing>(n);
          const strip_layout layout = layout_of(p, blocks);
          const auto strip = random_strips(p, layout, blocks, random);
          for (const int outputs : {16, 9, 8, 3, 32, 19}) {  // of one strip, of two
            const auto run = [&](const kernels& t) {
              std::vector<float> out(static_cast<std::size_t>(tiles * rows) * 35, 7);
              t.tile(p, rows,
                     {.strip = reinterpret_cast<const std::uint8_t*>(strip.data()),
                      .strips = outputs > 16 ? 2 : 1,
                      .tiles = tiles,
                      .layout = layout,
                      .blocks = blocks,
                      .x = mine.input(),
                      .out = out.data(),
                      .out_stride = 35,
                      .outputs = outputs > 16 ? outputs - 16 : outputs,
                      .fine = fine,
                      .fetch = true});
              return out;
            };
            expect_same_bits(run(k), run(reference));
          }
        }
      }
    }
  }
}

inline void compare_dots(const kernels& k, random_source& random) {
  for (const int rows : {1, 3, 4, 9, 32}) {
    for (const std::int64_t cols : {1, 15, 16, 33, 512}) {
      const auto x = random.normal(static_cast<std::size_t>(rows * cols)),
                 w = random.normal(static_cast<std::size_t>(4 * cols));
      const auto start = random.normal(static_cast<std::size_t>(rows) * 64);
      std::vector<std::uint16_t> half(w.size()), bf16(w.size());
      scalar_kernels().narrow_half(w.data(), half.data(), 4 * cols);
      scalar_kernels().narrow_bf16(w.data(), bf16.data(), 4 * cols);
      const auto run = [&](const kernels& t) {
        std::vector<float> acc = start;
        for (const auto& [element, weights] : {std::pair<line_element, const void*>{line_element::f32, w.data()},
                                               {line_element::f16, half.data()},
                                               {line_element::bf16, bf16.data()}}) {
          t.dot({.x = x.data(),
                 .x_stride = cols,
                 .rows = rows,
                 .element = element,
                 .w = weights,
                 .w_stride = cols,
                 .cols = cols,
                 .acc = acc.data()});
        }
        std::vector<float> sums(static_cast<std::size_t>(rows) * 4);
        t.sum_lanes(acc.data(), rows * 4, sums.data());
        acc.insert(acc.end(), sums.begin(), sums.end());
        return acc;
      };
      expect_same_bits(run(k), run(scalar_kernels()));
    }
  }
}

inline void compare_all(const kernels& k) {
  random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  compare_elementwise(k, random);
  compare_half_conversion(k);
  compare_tiles(k, random);
  compare_dots(k, random);
}

}  // namespace kvern::gpu::cpu::test
