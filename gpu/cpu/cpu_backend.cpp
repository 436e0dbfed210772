#include "gpu/cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "gpu/cache/step_check.hpp"
#include "gpu/cpu/decoder_config.hpp"
#include "gpu/cpu/decoder_forward.hpp"
#include "gpu/cpu/decoder_weights.hpp"
#include "gpu/cpu/kv_store.hpp"
#include "gpu/cpu/machine.hpp"
#include "gpu/cpu/page_plan.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::int32_t default_context = 8192;
constexpr int max_threads = 1024;
constexpr std::int32_t most_rows = 1 << 16;

class cpu_backend final : public backend {
 public:
  /// The parts that refer to one another; they stay where they are.
  struct parts {
    explicit parts(int threads) : team(threads) {}
    thread_team team;
    decoder_config config;
    decoder_weights weights;
    std::unique_ptr<decoder_forward> forward;
  };

  cpu_backend(std::unique_ptr<parts> model, kv_store store, backend_info info)
      : model_(std::move(model)),
        store_(std::move(store)),
        info_(std::move(info)),
        check_({.vocab = info_.vocab, .context = info_.context, .pages = info_.pages, .max_rows = info_.max_rows}) {
    lines_.reserve(2 * static_cast<std::size_t>(info_.max_rows));
  }

  const backend_info& info() const override { return info_; }

  result<void> forward(const step& s) override {
    model_->forward->reset();
    store_.drop();
    if (auto ok = check_.check(s, lines_); !ok) return ok;
    store_.begin(lines_);
    model_->forward->run(s, store_);
    return {};
  }

  std::span<const float> logits(std::size_t row) const override { return model_->forward->logits(row); }

  result<void> finalize(std::span<const std::int32_t> accepted) override { return store_.finalize(accepted); }
  result<void> clear(std::span<const page_id> pages) override { return store_.clear(pages); }
  result<void> copy(std::span<const page_copy> copies) override { return store_.copy(copies); }
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const override {
    return store_.read(page, lines, out);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) override {
    return store_.write(page, lines, in);
  }

 private:
  std::unique_ptr<parts> model_;
  kv_store store_;
  backend_info info_;
  step_check check_;
  std::vector<std::int64_t> lines_;
};

result<void> check_options(const cpu_options& options) {
  if (options.threads < 0 || options.threads > max_threads)
    return fail("invalid_option",
                fmt::format("threads is {}; give 1 to {}, or 0 for the physical cores.", options.threads, max_threads));
  if (options.context < 0)
    return fail("invalid_option",
                fmt::format("context is {}; give a number of positions, or 0 for the model's.", options.context));
  if (options.max_rows < 1 || options.max_rows > most_rows)
    return fail("invalid_option", fmt::format("max_rows is {}; give 1 to {}.", options.max_rows, most_rows));
  return {};
}

result<std::unique_ptr<backend>> load(const std::shared_ptr<const gguf_file>& file, const cpu_options& options) {
  const auto failed = [](auto& from) { return std::unexpected(std::move(from.error())); };
  if (auto ok = check_options(options); !ok) return failed(ok);
  auto config = read_decoder_config(*file);
  if (!config) return failed(config);
  const std::int32_t context = options.context > 0 ? options.context : std::min(config->context, default_context);
  if (context > config->context)
    return fail("context_too_large", fmt::format("The context is to be {} positions; {} was trained for {}.", context,
                                                 file->file_name(), config->context));
  const cache_shape shape{.layers = config->layers,
                          .kv_heads = config->kv_heads,
                          .head_dim = config->head_dim,
                          .type = options.kv == kv_type::f16 ? line_type::f16 : line_type::f32};
  if (auto ok = validate(shape); !ok)
    return fail("model_unsupported", fmt::format("{}: {}", file->file_name(), ok.error().message));
  // What the weights will take is not free any more; packed, they are about as large as in the file.
  const std::uint64_t available = available_memory();
  const std::uint64_t free_memory = available - std::min(available, file->file_bytes());
  const auto pages = plan_pages(shape, context, options.kv_memory, free_memory);
  if (!pages) return std::unexpected(pages.error());

  auto model = std::make_unique<cpu_backend::parts>(options.threads > 0 ? options.threads : usable_cores());
  model->config = std::move(*config);
  const isa kernels = best_isa();
  auto weights = decoder_weights::load(file, model->config, kernels, model->team, options.progress);
  if (!weights) return failed(weights);
  model->weights = std::move(*weights);
  auto forward = decoder_forward::create(
      model->config, model->weights,
      {.max_rows = options.max_rows, .context = context, .activations = options.activations, .kernels = kernels},
      model->team);
  if (!forward) return failed(forward);
  model->forward = std::move(*forward);

  auto store = kv_store::create({.shape = shape,
                                 .options = {.type = shape.type},
                                 .pages = *pages,
                                 .max_rows = options.max_rows,
                                 .kernels = kernels,
                                 .noise_seed = options.page_noise},
                                model->team);
  if (!store) return failed(store);
  backend_info info{.vocab = model->weights.vocab(),
                    .context = context,
                    .max_position = context,
                    .pages = *pages,
                    .max_rows = options.max_rows,
                    .page_bytes = shape.page_bytes(),
                    .weight_bytes = model->weights.bytes(),
                    .kernels = to_string(kernels),
                    .page_layers = shape.layers};
  return std::make_unique<cpu_backend>(std::move(model), std::move(*store), std::move(info));
}

}  // namespace

result<std::unique_ptr<backend>> load_cpu_backend(const std::shared_ptr<const gguf_file>& file,
                                                  const cpu_options& options) {
  try {
    return load(file, options);
  } catch (const std::bad_alloc&) {
    return fail("out_of_memory", fmt::format("{} does not fit into memory.", file->file_name()));
  } catch (const std::system_error&) {
    return fail("threads_unavailable",
                "The system refused to start the compute threads: lower threads or raise the "
                "limit of processes.");
  }
}

}  // namespace kvern::gpu::cpu
