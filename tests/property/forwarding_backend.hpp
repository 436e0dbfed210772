#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {

/// What backend::read gives for n lines: `parts` times n * `value_bytes` and n * `scale_bytes`.
struct read_layout {
  std::size_t parts = 1;
  std::size_t value_bytes = 0;
  std::size_t scale_bytes = 0;
};

/// Hands every call to the backend that it owns; what derives from it changes some.
class forwarding_backend : public backend {
 public:
  explicit forwarding_backend(std::unique_ptr<backend> inner) : inner_(std::move(inner)) {}

  const backend_info& info() const override { return inner_->info(); }
  result<void> forward(const step& s) override { return inner_->forward(s); }
  std::span<const float> logits(std::size_t row) const override { return inner_->logits(row); }
  result<void> finalize(std::span<const std::int32_t> accepted) override { return inner_->finalize(accepted); }
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& work) override {
    inner_->for_each(count, work);
  }
  result<void> clear(std::span<const page_id> pages) override { return inner_->clear(pages); }
  result<void> copy(std::span<const page_copy> copies) override { return inner_->copy(copies); }
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const override {
    return inner_->read(page, lines, out);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) override {
    return inner_->write(page, lines, in);
  }

  /// The first `lines` lines of a page; empty when it has none such.
  std::vector<std::byte> lines_of(page_id page, std::int32_t lines) const {
    std::vector<std::byte> bytes(info().page_bytes / page_lines * static_cast<std::size_t>(lines));
    if (!read(page, lines, bytes)) bytes.clear();
    return bytes;
  }

  /// Line `line` of a page, alone.
  std::vector<std::byte> line_of(page_id page, std::int32_t line, const read_layout& layout) const {
    const std::vector<std::byte> all = lines_of(page, line + 1);
    const auto before = static_cast<std::size_t>(line);
    std::vector<std::byte> out;
    std::size_t at = 0;
    for (std::size_t part = 0; part < layout.parts; ++part)
      for (const std::size_t size : {layout.value_bytes, layout.scale_bytes}) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at + before * size);
        out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
        at += (before + 1) * size;
      }
    return out;
  }

 private:
  std::unique_ptr<backend> inner_;
};

/// Tells of every call that changes something, before and after, and fails where it is told to.
class watched_backend final : public forwarding_backend {
 public:
  using forwarding_backend::forwarding_backend;

  /// An error is the call's, which is then not passed on.
  std::function<result<void>(const step&)> before_forward;
  std::function<result<void>(std::span<const std::int32_t>)> before_finalize;
  std::function<result<void>(std::span<const page_id>)> before_clear;
  std::function<result<void>(std::span<const page_copy>)> before_copy;
  std::function<void(page_id)> before_write;
  /// After success; an error is forward's.
  std::function<result<void>(const step&)> after_forward;
  std::function<void()> after_finalize;

  /// The row of the step in flight whose logits are all NaN.
  std::optional<std::size_t> poisoned;

  /// Whether a step was computed and neither committed nor dropped.
  bool open() const { return open_; }

  result<void> forward(const step& s) override {
    poisoned.reset();
    open_ = false;
    if (auto ok = before_forward(s); !ok) return ok;
    if (auto ok = forwarding_backend::forward(s); !ok) return ok;
    auto done = after_forward(s);
    open_ = done.has_value();
    return done;
  }
  std::span<const float> logits(std::size_t row) const override {
    const std::span<const float> true_ones = forwarding_backend::logits(row);
    if (poisoned != row) return true_ones;
    nan_.assign(true_ones.size(), std::numeric_limits<float>::quiet_NaN());
    return nan_;
  }
  result<void> finalize(std::span<const std::int32_t> accepted) override {
    open_ = false;
    if (auto ok = before_finalize(accepted); !ok) return ok;
    if (auto ok = forwarding_backend::finalize(accepted); !ok) return ok;
    after_finalize();
    return {};
  }
  result<void> clear(std::span<const page_id> pages) override {
    if (auto ok = before_clear(pages); !ok) return ok;
    return forwarding_backend::clear(pages);
  }
  result<void> copy(std::span<const page_copy> copies) override {
    if (auto ok = before_copy(copies); !ok) return ok;
    return forwarding_backend::copy(copies);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) override {
    before_write(page);
    return forwarding_backend::write(page, lines, in);
  }

 private:
  bool open_ = false;
  mutable std::vector<float> nan_;
};

}  // namespace kvern::gpu
