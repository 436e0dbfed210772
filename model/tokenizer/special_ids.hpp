#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "model/gguf/gguf.hpp"
#include "model/tokenizer/vocabulary.hpp"

namespace kvern {

/// What a kind of tokenizer assumes where the file is silent.
struct special_defaults {
  std::optional<token_id> bos = std::nullopt;
  std::optional<token_id> eos = std::nullopt;
  std::optional<token_id> unknown = std::nullopt;
  bool add_bos = false;
  bool add_eos = false;
};

/// The tokens with a role of their own. All ids are in the vocabulary.
struct special_ids {
  std::optional<token_id> bos;
  std::optional<token_id> eos;
  std::optional<token_id> unknown;
  bool add_bos = false;        ///< only when there is a BOS
  bool add_eos = false;        ///< only when there is an EOS
  std::vector<token_id> ends;  ///< end of generation, ascending
};

/// Reads the roles, and makes control tokens of those whose text says that they are (`<|im_end|>` stored as a normal
/// token would let any text end a turn). A default that is no control or unknown token is dropped; a stated id outside
/// it is an error (`model_invalid`), except -1, which states that there is none.
result<special_ids> resolve_special_ids(const gguf_file& file, const special_defaults& defaults, vocabulary& words);

}  // namespace kvern
