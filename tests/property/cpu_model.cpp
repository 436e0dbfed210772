#include "tests/property/cpu_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "gpu/cache/cache_shape.hpp"
#include "gpu/cpu/test_drive.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/engine/cache_geometry.hpp"

namespace kvern::gpu {
namespace {

// More than two of the rounds in which attention walks keys, so that their results are folded.
constexpr std::int32_t context = 320;
constexpr std::int32_t max_rows = 60;

class cold_cpu final : public cold_model {
 public:
  explicit cold_cpu(std::unique_ptr<backend> b) : backend_(std::move(b)) {
    free_.resize(static_cast<std::size_t>(backend_->info().pages));
    std::iota(free_.begin(), free_.end(), 0);
  }

  std::unique_ptr<cold_sequence> begin(const rotation& rotate) override {
    return std::make_unique<alone>(*this, rotate);
  }

 private:
  /// Gives its pages back when it goes.
  class alone final : public cold_sequence {
   public:
    alone(cold_cpu& model, const rotation& rotate)
        : model_(model), rotate_(rotate), pages_(model.backend_->info().windows.size()) {}
    ~alone() override {
      for (const auto& pages : pages_) model_.free_.insert(model_.free_.end(), pages.begin(), pages.end());
    }

    void extend(std::span<const token_id> tokens) override {
      while (!tokens.empty()) {
        const std::size_t rows = std::min<std::size_t>(tokens.size(), max_rows);
        run(tokens.first(rows));
        tokens = tokens.subspan(rows);
      }
    }
    std::span<const float> logits() const override { return logits_; }
    void read(std::int32_t table, std::int32_t block, std::int32_t lines, std::span<std::byte> out) const override {
      const auto& pages = pages_[static_cast<std::size_t>(table)];
      test::must(model_.backend_->read(pages.at(static_cast<std::size_t>(block)), lines, out));
    }

   private:
    void run(std::span<const token_id> tokens) {
      step s;
      s.sequences.push_back({.pages = {}, .committed = committed_, .rotate = rotate_});
      const auto blocks = static_cast<std::size_t>(blocks_for(committed_ + static_cast<std::int32_t>(tokens.size())));
      for (auto& pages : pages_) {
        while (pages.size() < blocks) {
          if (model_.free_.empty()) throw std::runtime_error("the cold model has no page left");
          pages.push_back(model_.free_.back());
          model_.free_.pop_back();
        }
        s.sequences[0].pages.insert(s.sequences[0].pages.end(), pages.begin(), pages.end());
      }
      for (const token_id token : tokens)
        s.rows.push_back({.token = token,
                          .position = committed_ + static_cast<std::int32_t>(s.rows.size()),
                          .sequence = 0,
                          .logits = s.rows.size() + 1 == tokens.size()});
      test::must(model_.backend_->forward(s));
      const auto logits = model_.backend_->logits(s.rows.size() - 1);
      logits_.assign(logits.begin(), logits.end());
      std::vector<std::int32_t> all(s.rows.size());
      std::iota(all.begin(), all.end(), 0);
      test::must(model_.backend_->finalize(all));
      committed_ += static_cast<std::int32_t>(tokens.size());
    }

    cold_cpu& model_;
    rotation rotate_;
    std::vector<std::vector<page_id>> pages_;  // [table][block]
    std::vector<float> logits_;
    std::int32_t committed_ = 0;
  };

  std::unique_ptr<backend> backend_;
  std::vector<page_id> free_;
};

std::shared_ptr<const gguf_file> make_file(int kind) {
  test::tiny_options o{.kv_heads = tiny_kv_heads, .head_dim = tiny_head_dim, .context = context};
  o.architecture = tiny_models[kind];
  o.window = 16;
  if (kind == 2) {
    o.layers = 3;
    o.ff = {48, 48, 48};
  }
  test::tiny_model model = test::make_tiny_model(o, 1);
  if (kind == 2) model.keys["gemma3.attention.sliding_window_pattern"] = std::uint32_t{3};
  const test::scratch_folder folder;
  return test::must(model.open(folder));
}

/// `pages` gives how many to have of what one context needs.
template <class F>
std::unique_ptr<backend> load(const combination& c, std::optional<std::uint64_t> noise, F&& pages) {
  cpu::cpu_options o{.threads = c.threads, .context = context, .cache = c.cache, .max_rows = max_rows};
  const auto file = tiny_file(c.model);
  const auto probe = test::must(cpu::load_cpu_backend(file, o));
  const backend_info& info = probe->info();
  const cache_shape page{.layers = info.page_layers,
                         .kv_heads = tiny_kv_heads,
                         .head_dim = tiny_head_dim,
                         .type = c.cache.type,
                         .scale = c.cache.scale};
  const auto tables = static_cast<std::int32_t>(info.windows.size());
  o.kv_memory =
      static_cast<std::uint64_t>(pages(tables * blocks_for(context))) * page_memory_bytes(page, c.cache.shards);
  o.page_noise = noise;
  return test::must(cpu::load_cpu_backend(file, o));
}

}  // namespace

std::shared_ptr<const gguf_file> tiny_file(int kind) {
  static const std::array files = {make_file(0), make_file(1), make_file(2)};
  return files[static_cast<std::size_t>(kind)];
}

std::unique_ptr<backend> load_tiny(const combination& c, std::int32_t contexts, std::int32_t more_pages,
                                   std::uint64_t noise) {
  return load(c, noise, [&](std::int32_t whole) { return contexts * whole + more_pages; });
}

read_layout layout_of(const backend_info& info) {
  const cache_shape part{
      .layers = 1, .kv_heads = info.kv_heads, .head_dim = info.head_dim, .type = info.type, .scale = info.scale};
  return {.parts = static_cast<std::size_t>(info.page_layers) * line_parts,
          .value_bytes = part.values_bytes(),
          .scale_bytes = part.scales_bytes()};
}

std::unique_ptr<cold_model> load_cold(const combination& c) {
  const combination plain{.model = c.model, .cache = {.type = c.cache.type, .scale = c.cache.scale}};
  return std::make_unique<cold_cpu>(load(plain, {}, [](std::int32_t) { return 3000; }));
}

}  // namespace kvern::gpu
