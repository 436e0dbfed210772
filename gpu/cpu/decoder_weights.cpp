#include "gpu/cpu/decoder_weights.hpp"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "gpu/quants/dequantize.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::uint64_t max_vocab = 1 << 24;

std::string shape_of(const gguf_tensor& tensor) {
  return fmt::format("{} x {} x {} x {}", tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]);
}

/// Finds, checks and packs the tensors of one file; knows which were used.
class tensor_reader {
 public:
  tensor_reader(const gguf_file& file, isa i, thread_team& team, const std::function<void(double)>& progress)
      : file_(file), isa_(i), team_(team), progress_(progress) {
    for (const gguf_tensor& tensor : file.tensors()) bytes_ += tensor.data.size();
  }

  const gguf_tensor* find(const std::string& name) {
    const gguf_tensor* tensor = file_.find_tensor(name);
    if (tensor != nullptr) used_.insert(tensor->name);
    return tensor;
  }

  /// `rows` 0: any number up to the largest vocabulary.
  result<const gguf_tensor*> get(const std::string& name, std::int64_t cols, std::int64_t rows) {
    const gguf_tensor* tensor = find(name);
    if (tensor == nullptr) return refuse(name, "is missing");
    const std::uint64_t found = tensor->dims[1];
    const bool rows_fit = rows > 0 ? found == static_cast<std::uint64_t>(rows) : found >= 1 && found <= max_vocab;
    if (tensor->dims[0] != static_cast<std::uint64_t>(cols) || !rows_fit || tensor->dims[2] != 1 ||
        tensor->dims[3] != 1)
      return refuse(name, rows > 0 ? fmt::format("is {}, not {} x {}", shape_of(*tensor), cols, rows)
                                   : fmt::format("is {}, not {} x vocabulary", shape_of(*tensor), cols));
    return tensor;
  }

  result<std::vector<float>> vector(const std::string& name, std::int64_t length) {
    const auto tensor = get(name, length, 1);
    if (!tensor) return std::unexpected(tensor.error());
    if (static_cast<std::uint64_t>(length) % traits((*tensor)->type).block_size != 0)
      return refuse(name, "does not fill whole blocks of its type");
    std::vector<float> values(static_cast<std::size_t>(length));
    dequantize((*tensor)->type, (*tensor)->data, values);
    done(**tensor);
    return values;
  }

  struct source {
    std::string name;  ///< without ".weight"
    std::int64_t outputs;
  };

  /// The matrices `sources`, side by side, and their biases where the file has any.
  result<linear> product(std::int64_t inputs, std::initializer_list<source> sources) {
    std::vector<const gguf_tensor*> tensors;
    for (const source& s : sources) {
      const auto tensor = get(s.name + ".weight", inputs, s.outputs);
      if (!tensor) return std::unexpected(tensor.error());
      tensors.push_back(*tensor);
    }
    auto packed = linear::pack(tensors, isa_, team_, arena_);
    if (!packed) return std::unexpected(named(std::move(packed.error()), sources.begin()->name));
    for (const gguf_tensor* tensor : tensors) done(*tensor);

    std::size_t first = 0;
    for (const source& s : sources) {
      const auto outputs = static_cast<std::size_t>(s.outputs > 0 ? s.outputs : packed->outputs());
      if (find(s.name + ".bias") != nullptr) {
        const auto bias = vector(s.name + ".bias", static_cast<std::int64_t>(outputs));
        if (!bias) return std::unexpected(bias.error());
        packed->bias.resize(static_cast<std::size_t>(packed->outputs()));
        std::copy(bias->begin(), bias->end(), packed->bias.begin() + static_cast<std::ptrdiff_t>(first));
      }
      first += outputs;
    }
    return packed;
  }

  /// Whether the file holds a tensor that nobody asked for: a model that computes something else.
  result<void> expect_no_other(const decoder_config& config) const {
    for (const gguf_tensor& tensor : file_.tensors()) {
      const std::string_view name = tensor.name;
      const bool known =
          used_.contains(tensor.name) || (name == "rope_freqs.weight" && !config.rope.freq_factors.empty()) ||
          name.ends_with(".inv_freq") || name.ends_with(".attn_rot_embd");  // left in some files, computed by everyone
      if (!known)
        return fail("model_unsupported", fmt::format("{}: the tensor {} is not part of a {} model as it is known here.",
                                                     file_.file_name(), name.substr(0, 80), config.architecture));
    }
    return {};
  }

  void done(const gguf_tensor& tensor) {
    file_.forget(tensor);
    bytes_done_ += tensor.data.size();
    if (progress_ && bytes_ > 0) progress_(static_cast<double>(bytes_done_) / static_cast<double>(bytes_));
  }

  std::unexpected<error> refuse(const std::string& name, std::string_view what) const {
    return fail("model_invalid", fmt::format("{}: the tensor {} {}.", file_.file_name(), name, what));
  }

 private:
  error named(error why, const std::string& name) const {
    why.message = fmt::format("{}: {}: {}", file_.file_name(), name, why.message);
    return why;
  }

  const gguf_file& file_;
  isa isa_;
  thread_team& team_;
  const std::function<void(double)>& progress_;
  memory_arena arena_;  // so the weights lie in the order in which a step reads them
  std::unordered_set<std::string> used_;
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_done_ = 0;
};

result<decoder_layer> load_layer(tensor_reader& tensors, const decoder_config& config, std::int32_t index) {
  const std::string block = fmt::format("blk.{}.", index);
  const std::int64_t dim = config.dim;
  const std::int64_t ff = config.ff[static_cast<std::size_t>(index)];
  decoder_layer layer;
  const auto take = [](auto&& loaded, auto& into) -> result<void> {
    if (!loaded) return std::unexpected(std::move(loaded.error()));
    into = std::move(*loaded);
    return {};
  };
  const auto take_norm = [&](const char* name, std::int64_t length, std::vector<float>& into) {
    return take(tensors.vector(block + name + ".weight", length), into);
  };
  if (auto ok = take_norm("attn_norm", dim, layer.attention_norm); !ok) return std::unexpected(std::move(ok.error()));
  auto qkv = tensors.find(block + "attn_qkv.weight") != nullptr
                 ? tensors.product(dim, {{block + "attn_qkv", config.q_width() + 2 * config.kv_width()}})
                 : tensors.product(dim, {{block + "attn_q", config.q_width()},
                                         {block + "attn_k", config.kv_width()},
                                         {block + "attn_v", config.kv_width()}});
  if (auto ok = take(std::move(qkv), layer.qkv); !ok) return std::unexpected(std::move(ok.error()));
  if (config.head_norms) {
    if (auto ok = take_norm("attn_q_norm", config.head_dim, layer.q_norm); !ok)
      return std::unexpected(std::move(ok.error()));
    if (auto ok = take_norm("attn_k_norm", config.head_dim, layer.k_norm); !ok)
      return std::unexpected(std::move(ok.error()));
  }
  if (auto ok = take(tensors.product(config.q_width(), {{block + "attn_output", dim}}), layer.attention_out); !ok)
    return std::unexpected(std::move(ok.error()));
  if (auto ok = take_norm("ffn_norm", dim, layer.ffn_norm); !ok) return std::unexpected(std::move(ok.error()));
  if (auto ok = take(tensors.product(dim, {{block + "ffn_gate", ff}, {block + "ffn_up", ff}}), layer.gate_up); !ok)
    return std::unexpected(std::move(ok.error()));
  if (auto ok = take(tensors.product(ff, {{block + "ffn_down", dim}}), layer.down); !ok)
    return std::unexpected(std::move(ok.error()));
  if (config.post_norms) {
    if (auto ok = take_norm("post_attention_norm", dim, layer.post_attention_norm); !ok)
      return std::unexpected(std::move(ok.error()));
    if (auto ok = take_norm("post_ffw_norm", dim, layer.post_ffn_norm); !ok)
      return std::unexpected(std::move(ok.error()));
  }
  return layer;
}

}  // namespace

result<decoder_weights> decoder_weights::load(std::shared_ptr<const gguf_file> file, const decoder_config& config,
                                              isa i, thread_team& team, const std::function<void(double)>& progress) {
  tensor_reader tensors(*file, i, team, progress);
  decoder_weights weights;
  weights.dim_ = config.dim;
  weights.embedding_scale_ = config.embedding_scale;
  const std::string embedding_name = "token_embd.weight";
  const auto embedding = tensors.get(embedding_name, config.dim, 0);
  if (!embedding) return std::unexpected(embedding.error());
  if (config.dim % static_cast<std::int64_t>(traits((*embedding)->type).block_size) != 0)
    return tensors.refuse(embedding_name, "does not fill whole blocks of its type");
  const auto vocab = static_cast<std::int64_t>((*embedding)->dims[1]);
  const auto stated = file->find_uint(config.architecture + ".vocab_size");
  if (!stated) return std::unexpected(stated.error());
  if (stated->has_value() && **stated != static_cast<std::uint64_t>(vocab))
    return tensors.refuse(embedding_name,
                          fmt::format("has {} rows where {}.vocab_size is {}", vocab, config.architecture, **stated));

  weights.layers.reserve(static_cast<std::size_t>(config.layers));
  for (std::int32_t index = 0; index < config.layers; ++index) {
    auto layer = load_layer(tensors, config, index);
    if (!layer) return std::unexpected(std::move(layer.error()));
    weights.layers.push_back(std::move(*layer));
  }
  auto norm = tensors.vector("output_norm.weight", config.dim);
  if (!norm) return std::unexpected(std::move(norm.error()));
  weights.output_norm = std::move(*norm);
  const bool tied = tensors.find("output.weight") == nullptr;
  auto head = tensors.product(config.dim, {{tied ? "token_embd" : "output", vocab}});
  if (!head) return std::unexpected(std::move(head.error()));
  weights.head = std::move(*head);
  if (auto ok = tensors.expect_no_other(config); !ok) return std::unexpected(std::move(ok.error()));
  if (!tied) {
    weights.embedding_ = *embedding;
    weights.file_ = std::move(file);
  }
  if (progress) progress(1);
  return weights;
}

void decoder_weights::embed(token_id token, float* out) const {
  const auto dim = static_cast<std::size_t>(dim_);
  if (embedding_ == nullptr) {
    head.row(token, out);
  } else {
    const ggml_type_traits& type = traits(embedding_->type);
    const std::size_t row_bytes = dim / type.block_size * type.type_size;
    dequantize(embedding_->type, embedding_->data.subspan(static_cast<std::size_t>(token) * row_bytes, row_bytes),
               {out, dim});
  }
  if (embedding_scale_ != 1)
    for (std::size_t i = 0; i < dim; ++i) out[i] *= embedding_scale_;
}

std::uint64_t decoder_weights::bytes() const {
  std::uint64_t sum = output_norm.size() * sizeof(float) + head.bytes();
  for (const decoder_layer& layer : layers) {
    for (const auto* norm : {&layer.attention_norm, &layer.q_norm, &layer.k_norm, &layer.post_attention_norm,
                             &layer.ffn_norm, &layer.post_ffn_norm})
      sum += norm->size() * sizeof(float);
    for (const linear* product : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down})
      sum += product->bytes();
  }
  return sum;
}

}  // namespace kvern::gpu::cpu
