#include <gtest/gtest.h>

#include <cstdlib>

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
    const environment e("avx512_vnni");
    return best_isa();
  }();
  {
    const environment e("scalar");
    EXPECT_EQ(best_isa(), isa::scalar);
  }
  {
    const environment e("avx2");
    EXPECT_EQ(best_isa(), most < isa::avx2 ? most : isa::avx2);
  }
  {
    const environment e("no such set");
    EXPECT_EQ(best_isa(), most);
  }
}

TEST(isa, layouts_keep_quants_aligned_and_scales_inside) {
  for (const packing p : {packing::q4_0, packing::q4_1, packing::q8_0}) {
    for (std::int64_t blocks = 1; blocks < 50; ++blocks) {
      const strip_layout l = layout_of(p, blocks);
      EXPECT_EQ(l.quant_step % 64, 0);
      EXPECT_EQ(l.bytes % 64, 0);
      EXPECT_LE(l.scales + (blocks - 1) * l.scale_step + (p == packing::q4_1 ? 64 : 32), l.bytes);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
