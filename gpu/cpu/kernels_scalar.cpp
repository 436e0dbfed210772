// The reference: sixteen lanes in plain C++. simd_scalar.hpp comes before what is written over its lanes.
// clang-format off
#include "gpu/cpu/simd_scalar.hpp"
#include "gpu/cpu/kernels_elementwise.hpp"
#include "gpu/cpu/kernels_rows.hpp"
#include "gpu/cpu/kernels_lines.hpp"
#include "gpu/cpu/kernels_attention.hpp"
#include "gpu/cpu/kernels_packed_scalar.hpp"
#include "gpu/cpu/kernels_table.hpp"
// clang-format on

namespace kvern::gpu::cpu {
namespace {

constexpr kernels table = make_table(tile_scalar);

}  // namespace

const kernels& scalar_kernels() { return table; }

}  // namespace kvern::gpu::cpu
