#include "gpu/cpu/kernel_comparison.hpp"

#if defined(__x86_64__)

namespace kvern::gpu::cpu {
namespace {

TEST(kernels_avx_vnni, equal_the_scalar_reference_to_the_bit) {
  if (!supported(isa::avx_vnni)) GTEST_SKIP() << "not on this machine";
  test::compare_all(avx_vnni_kernels());
}

}  // namespace
}  // namespace kvern::gpu::cpu

#endif
