#include "gpu/cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/page_tables.hpp"
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

// Of sequences that rotate. A float holds every integer up to here.
constexpr std::int32_t max_position = 1 << 24;

class cpu_backend final : public backend {
 public:
  /// The parts that refer to one another; they stay where they are.
  struct parts {
    parts(int threads, const std::vector<std::vector<int>>& cpus) : team(threads, cpus) {}
    thread_team team;
    decoder_config config;
    decoder_weights weights;
    std::unique_ptr<decoder_forward> forward;
  };

  cpu_backend(std::unique_ptr<parts> model, kv_store store, backend_info info)
      : model_(std::move(model)),
        store_(std::move(store)),
        info_(std::move(info)),
        check_({.vocab = info_.vocab,
                .context = info_.context,
                .max_position = info_.max_position,
                .pages = info_.pages,
                .max_rows = info_.max_rows,
                .windows = info_.windows}) {
    lines_.reserve(static_cast<std::size_t>(info_.max_rows) * info_.windows.size());
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
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& work) override {
    model_->team.run(count, work);
  }
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

struct cache_plan {
  std::int32_t context = 0;
  page_tables tables;
  cache_shape page;
  std::int32_t pages = 0;
};

result<cache_plan> plan_cache(const gguf_file& file, const decoder_config& config, const cpu_options& options) {
  if (auto ok = validate(options.cache, config.kv_heads); !ok) return std::unexpected(std::move(ok.error()));
  cache_plan plan;
  const std::int32_t most_context = std::min(config.context, max_position);
  plan.context = options.context > 0 ? options.context : std::min(most_context, default_context);
  if (plan.context > most_context)
    return fail("context_too_large", fmt::format("The context is to be {} positions; {} can have {}.", plan.context,
                                                 file.file_name(), most_context));
  const cache_shape line{.layers = config.layers,
                         .kv_heads = config.kv_heads,
                         .head_dim = config.head_dim,
                         .type = options.cache.type,
                         .scale = options.cache.scale};
  if (auto ok = validate(line); !ok)
    return fail("model_unsupported", fmt::format("{}: {}", file.file_name(), ok.error().message));
  plan.tables = make_page_tables(config.window);
  plan.page = line;
  plan.page.layers = plan.tables.page_layers;
  // What the weights will take is not free any more; packed, they are about as large as in the file.
  const std::uint64_t available = available_memory();
  const auto pages = plan_pages({.page_bytes = page_memory_bytes(plan.page, options.cache.shards),
                                 .windows = plan.tables.windows,
                                 .context = plan.context,
                                 .max_rows = options.max_rows,
                                 .layout = options.cache.layout},
                                options.kv_memory, available - std::min(available, file.file_bytes()));
  if (!pages) return std::unexpected(pages.error());
  plan.pages = *pages;
  return plan;
}

result<std::unique_ptr<backend>> load(const std::shared_ptr<const gguf_file>& file, const cpu_options& options) {
  const auto failed = [](auto& from) { return std::unexpected(std::move(from.error())); };
  if (auto ok = check_options(options); !ok) return failed(ok);
  auto config = read_decoder_config(*file);
  if (!config) return failed(config);
  auto cache = plan_cache(*file, *config, options);
  if (!cache) return failed(cache);

  const int threads = options.threads > 0 ? options.threads : usable_cores();
  shard_placement placement = place_shards(numa_nodes(), options.cache.shards, threads);
  auto model = std::make_unique<cpu_backend::parts>(threads, placement.cpus);
  model->config = std::move(*config);
  const isa kernels = best_isa();
  auto weights = decoder_weights::load(file, model->config, kernels, model->team, options.progress);
  if (!weights) return failed(weights);
  model->weights = std::move(*weights);
  auto forward = decoder_forward::create(
      model->config, model->weights,
      {.max_rows = options.max_rows, .context = cache->context, .activations = options.activations, .kernels = kernels},
      model->team);
  if (!forward) return failed(forward);
  model->forward = std::move(*forward);

  backend_info info{.vocab = model->weights.vocab(),
                    .context = cache->context,
                    .max_position = max_position,
                    .pages = cache->pages,
                    .max_rows = options.max_rows,
                    .page_bytes = cache->page.page_bytes(),
                    .weight_bytes = model->weights.bytes(),
                    .kernels = to_string(kernels),
                    .windows = cache->tables.windows,
                    .page_layers = cache->tables.page_layers,
                    .layers = cache->tables.layers,
                    .kv_heads = cache->page.kv_heads,
                    .head_dim = cache->page.head_dim,
                    .type = options.cache.type,
                    .scale = options.cache.scale};
  auto store = kv_store::create({.tables = std::move(cache->tables),
                                 .kv_heads = cache->page.kv_heads,
                                 .head_dim = cache->page.head_dim,
                                 .options = options.cache,
                                 .pages = cache->pages,
                                 .max_rows = options.max_rows,
                                 .kernels = kernels,
                                 .nodes = std::move(placement.nodes),
                                 .noise_seed = options.page_noise},
                                model->team);
  if (!store) return failed(store);
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
