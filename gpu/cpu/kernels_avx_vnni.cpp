// AVX2 with AVX-VNNI, which only the products of packed weights use; the other kernels are those of AVX2.
#if defined(__x86_64__)

#include "gpu/cpu/kernels_packed_avx2.hpp"
#include "gpu/cpu/kernels_packed_tile.hpp"

namespace kvern::gpu::cpu {

const kernels& avx_vnni_kernels() {
  static const kernels table = [] {
    kernels k = avx2_kernels();
    k.tile = tile;
    return k;
  }();
  return table;
}

}  // namespace kvern::gpu::cpu

#endif
