#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <string>

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Sets KVERN_ISA and puts the former value back.
class environment {
 public:
  explicit environment(const char* value) {
    if (const char* old = std::getenv("KVERN_ISA")) {
      had_ = true;
      old_ = old;
    }
    setenv("KVERN_ISA", value, 1);
  }
  ~environment() { had_ ? setenv("KVERN_ISA", old_.c_str(), 1) : unsetenv("KVERN_ISA"); }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

 private:
  bool had_ = false;
  std::string old_;
};

TEST(isa, environment_narrows_but_never_widens) {
  const isa most = [] {
    const environment e("");
    return best_isa();
  }();
  for (const isa i : all_isas) {
    const environment e(to_string(i));
    EXPECT_EQ(best_isa(), supported(i) ? i : most);
  }
  {
    const environment e("no such set");
    EXPECT_EQ(best_isa(), most);
  }
}

TEST(isa, layouts_keep_quants_aligned_and_scales_inside) {
  for (int n = 0; n < static_cast<int>(std::size(packing_forms)); ++n) {
    const auto p = static_cast<packing>(n);
    const packing_form& form = packing_forms[n];
    for (std::int64_t blocks = 1; blocks < 50; ++blocks) {
      const strip_layout l = layout_of(p, blocks);
      EXPECT_EQ(l.quant_step % 64, 0);
      EXPECT_EQ(l.bytes % 64, 0);
      const int scales = form.super_blocks ? (form.halves || form.minima ? 32 : 16) : form.minima ? 64 : 32;
      EXPECT_LE(l.scales + (blocks - 1) * l.scale_step + scales, form.super_blocks ? l.factors : l.bytes);
      const std::int64_t factors = (blocks + super_block - 1) / super_block;
      EXPECT_LE(l.factors + (factors - 1) * l.factor_step + (form.minima ? 64 : 32) * (form.super_blocks ? 1 : 0),
                l.bytes);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
