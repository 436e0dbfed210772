#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "gpu/cpu/decoder_config.hpp"
#include "gpu/cpu/linear.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

struct decoder_layer {
  std::vector<float> attention_norm;       ///< [dim]
  linear qkv;                              ///< dim -> q [heads][head_dim], k [kv_heads][head_dim], v likewise
  std::vector<float> q_norm, k_norm;       ///< [head_dim] of each head; empty: not normed
  linear attention_out;                    ///< heads * head_dim -> dim
  std::vector<float> post_attention_norm;  ///< [dim] of what attention adds; empty: not normed
  std::vector<float> ffn_norm;             ///< [dim]
  linear gate_up;                          ///< dim -> gate [ff], up [ff]
  linear down;                             ///< ff -> dim
  std::vector<float> post_ffn_norm;        ///< [dim] of what the feed-forward block adds; empty: not normed
};

/// All weights of a decoder, packed for one instruction set. Immutable after load.
class decoder_weights {
 public:
  /// Packs every matrix of `file` and tells the system that the mapping is not needed any more, the embedding of an
  /// untied model excepted: its rows are read from the mapping, so `file` is kept. `progress` gets the share packed.
  /// Errors: `model_invalid` (a tensor missing or of the wrong shape), `model_unsupported` (a tensor that such a
  /// model does not have); both name the tensor. `out_of_memory`.
  static result<decoder_weights> load(std::shared_ptr<const gguf_file> file, const decoder_config& config, isa i,
                                      thread_team& team, const std::function<void(double)>& progress);

  std::vector<decoder_layer> layers;
  std::vector<float> output_norm;  ///< [dim]
  linear head;                     ///< dim -> vocab

  std::int32_t vocab() const { return head.outputs(); }

  /// Embedding of `token`, [dim], scaled as it enters the first layer. The token must be in the vocabulary.
  void embed(token_id token, float* out) const;

  /// Resident, as packed.
  std::uint64_t bytes() const;

 private:
  std::shared_ptr<const gguf_file> file_;
  const gguf_tensor* embedding_ = nullptr;  ///< null when the head's rows are the embedding
  std::int32_t dim_ = 0;
  float embedding_scale_ = 1;
};

}  // namespace kvern::gpu::cpu
