#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "gpu/cpu/rope_table.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

/// Shape and constants of a model of the llama architecture: RMS norms, grouped-query attention with rotated pairs
/// (2i, 2i + 1), SwiGLU. Every number has been checked against its range.
struct llama_config {
  std::int32_t layers = 0;
  std::int32_t dim = 0;  ///< of the residual stream
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;     ///< divides heads
  std::int32_t head_dim = 0;     ///< even
  std::vector<std::int32_t> ff;  ///< [layers]
  float norm_epsilon = 0;
  float attention_scale = 0;  ///< of q.k
  std::int32_t context = 0;   ///< positions the model was trained for, with its rope scaling
  rope_config rope;           ///< freq_factors from `rope_freqs.weight`

  std::int32_t q_width() const { return heads * head_dim; }
  std::int32_t kv_width() const { return kv_heads * head_dim; }
};

/// Errors: `model_unsupported` (another architecture, experts, layers of different head counts, an unknown rope
/// scaling), `model_invalid` (a key missing, of the wrong type or out of range); both name the key.
result<llama_config> read_llama_config(const gguf_file& file);

}  // namespace kvern::gpu::cpu
