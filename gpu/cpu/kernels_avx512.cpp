// AVX-512 with VNNI. simd_avx512.hpp comes before what is written over its lanes.
#if defined(__x86_64__)

// clang-format off
#include "gpu/cpu/simd_avx512.hpp"
#include "gpu/cpu/kernels_elementwise.hpp"
#include "gpu/cpu/kernels_rows.hpp"
#include "gpu/cpu/kernels_lines.hpp"
#include "gpu/cpu/kernels_attention.hpp"
#include "gpu/cpu/kernels_packed_avx512.hpp"
#include "gpu/cpu/kernels_packed_tile.hpp"
#include "gpu/cpu/kernels_table.hpp"
// clang-format on

namespace kvern::gpu::cpu {
namespace {

constexpr kernels table = make_table(tile);

}  // namespace

const kernels& avx512_kernels() { return table; }

}  // namespace kvern::gpu::cpu

#endif
