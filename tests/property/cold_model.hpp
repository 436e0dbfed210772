#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {

/// One sequence computed cold and alone, without an engine: every line from its own tokens, in pages of its own.
class cold_sequence {
 public:
  virtual ~cold_sequence() = default;
  virtual void extend(std::span<const token_id> tokens) = 0;
  /// After the last token [vocab]; valid until the next `extend`.
  virtual std::span<const float> logits() const = 0;
  /// The first `lines` lines of a block, as backend::read gives them.
  virtual void read(std::int32_t table, std::int32_t block, std::int32_t lines, std::span<std::byte> out) const = 0;
};

/// What any other way of computing must equal. Outlives its sequences.
class cold_model {
 public:
  virtual ~cold_model() = default;
  virtual std::unique_ptr<cold_sequence> begin(const rotation& rotate) = 0;
};

/// Tokens, and their lines as far as anybody has asked for them.
struct cold_run {
  std::vector<token_id> tokens;
  rotation rotate;
  std::unique_ptr<cold_sequence> sequence;
  std::size_t computed = 0;

  cold_run(cold_model& model, std::vector<token_id> of, const rotation& r)
      : tokens(std::move(of)), rotate(r), sequence(model.begin(r)) {}

  void compute(std::size_t length) {
    if (length <= computed) return;
    sequence->extend(std::span(tokens).subspan(computed, length - computed));
    computed = length;
  }
};

}  // namespace kvern::gpu
