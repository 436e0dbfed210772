#include <utility>

#include "base/utf8.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern {

detokenizer::detokenizer(std::shared_ptr<const tokenizer> t, bool special)
    : tokenizer_(std::move(t)), special_(special) {}

std::string detokenizer::push(token_id id) {
  held_ += tokenizer_->piece(id, special_);
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const utf8_step step = utf8_next(rest);
    if (step.state == utf8_state::incomplete) break;
    out += step.state == utf8_state::valid ? rest.substr(0, step.length) : utf8_replacement;
    rest.remove_prefix(step.length);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string detokenizer::flush() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(utf8_replacement);
}

}  // namespace kvern
