#pragma once

#include <cstddef>
#include <span>

#include "model/gguf/ggml_type.hpp"

namespace kvern::gpu {

/// Values of `blocks` as float32, exactly as the format defines them (f16 subnormals kept, no fused operations).
/// `out.size()` is a multiple of the type's block size and `blocks` holds out.size() / block_size blocks.
void dequantize(ggml_type type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace kvern::gpu
