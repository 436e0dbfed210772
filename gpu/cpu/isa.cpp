#include <cstdlib>
#include <string_view>

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kvern::gpu::cpu {
namespace {

#if defined(__x86_64__)
/// Read from CPUID itself: clang 16 has no name for it. Its registers are those of AVX.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

/// __builtin_cpu_supports answers for the processor and the operating system's saving of its registers together.
isa widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni")) {
      return isa::avx512_vnni;
    }
    return isa::avx2;
  }
#endif
  return isa::scalar;
}

}  // namespace

isa best_isa() {
  const isa most = widest();
  const char* const wish = std::getenv("KVERN_ISA");
  if (wish == nullptr) return most;
  for (const isa i : {isa::scalar, isa::avx2, isa::avx512_vnni}) {
    if (i <= most && std::string_view(wish) == to_string(i)) return i;
  }
  return most;
}

const char* to_string(isa i) {
  switch (i) {
    case isa::scalar:
      return "scalar";
    case isa::avx2:
      return "avx2";
    case isa::avx512_vnni:
      return "avx512_vnni";
  }
  return "unknown";
}

const kernels& kernels_for(isa i) {
#if defined(__x86_64__)
  if (i == isa::avx512_vnni) return avx512_kernels();
  if (i == isa::avx2) return avx2_kernels();
#endif
  static_cast<void>(i);
  return scalar_kernels();
}

}  // namespace kvern::gpu::cpu
