#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kvern::gpu::cpu {
namespace {

#if defined(__x86_64__)
// Read from CPUID itself: clang 16 has no names for these two. Their registers are those of AVX.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx_vnni() {
  constexpr unsigned bit = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bit) != 0;
}
#endif

}  // namespace

/// __builtin_cpu_supports answers for the processor and the operating system's saving of its registers together.
bool supported(isa i) {
  if (i == isa::scalar) return true;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (i == isa::avx2) return avx2;
  if (i == isa::avx_vnni) return avx2 && has_avx_vnni();
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

isa best_isa() {
  const char* const wish = std::getenv("KVERN_ISA");
  if (wish != nullptr) {
    for (const isa i : all_isas)
      if (supported(i) && std::string_view(wish) == to_string(i)) return i;
  }
  return *std::find_if(std::rbegin(all_isas), std::rend(all_isas), supported);
}

const char* to_string(isa i) {
  switch (i) {
    case isa::scalar:
      return "scalar";
    case isa::avx2:
      return "avx2";
    case isa::avx_vnni:
      return "avx_vnni";
    case isa::avx512_vnni:
      return "avx512_vnni";
  }
  return "unknown";
}

const kernels& kernels_for(isa i) {
#if defined(__x86_64__)
  if (i == isa::avx512_vnni) return avx512_kernels();
  if (i == isa::avx_vnni) return avx_vnni_kernels();
  if (i == isa::avx2) return avx2_kernels();
#endif
  static_cast<void>(i);
  return scalar_kernels();
}

}  // namespace kvern::gpu::cpu
