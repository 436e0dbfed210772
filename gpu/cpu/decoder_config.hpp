#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/cpu/ops.hpp"
#include "gpu/cpu/rope_table.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

/// The function of the gate in a feed-forward block: down(function(gate(x)) * up(x)).
enum class gate_function { silu, gelu };

/// Shape and constants of a decoder: RMS norms, grouped-query attention with rotated pairs, gated feed-forward. Every
/// number has been checked against its range. All that distinguishes the architectures is in here.
struct decoder_config {
  std::string architecture;  ///< as in `general.architecture`
  std::int32_t layers = 0;
  std::int32_t dim = 0;  ///< of the residual stream
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;     ///< divides heads
  std::int32_t head_dim = 0;     ///< even
  std::vector<std::int32_t> ff;  ///< [layers]
  float norm_epsilon = 0;
  float embedding_scale = 1;  ///< of the rows of the embedding; not of the head tied to it
  bool head_norms = false;    ///< q and k are normed per head, before they are rotated
  bool post_norms = false;    ///< what a block adds to the residual is normed
  gate_function gate = gate_function::silu;
  float attention_scale = 0;         ///< of q.k
  float attention_cap = 0;           ///< scores become cap * tanh(score / cap); 0: they stay
  float logit_cap = 0;               ///< of the logits, likewise
  std::vector<std::int32_t> window;  ///< [layers] keys that a row sees, its own included; 0: all
  std::int32_t context = 0;          ///< positions the model was trained for, with its rope scaling
  rope_pairing pairing = rope_pairing::norm;
  rope_config rope;                       ///< freq_factors from `rope_freqs.weight`
  std::optional<rope_config> local_rope;  ///< of the layers with a window, where it is another

  std::int32_t q_width() const { return heads * head_dim; }
  std::int32_t kv_width() const { return kv_heads * head_dim; }
};

/// Of llama, gemma2 and gemma3 models. Errors: `model_unsupported` (another architecture, experts, layers of different
/// head counts, an unknown rope scaling), `model_invalid` (a key missing, of the wrong type or out of range); both name
/// the key.
result<decoder_config> read_decoder_config(const gguf_file& file);

}  // namespace kvern::gpu::cpu
