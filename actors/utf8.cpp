#include "actors/utf8.hpp"

#include <algorithm>

#include "model/tokenizer/utf8.hpp"

namespace kvern::actors {

std::size_t incomplete_tail(std::string_view text) {
  const auto longest = std::min<std::size_t>(3, text.size());
  for (std::size_t tail = 1; tail <= longest; ++tail) {
    const auto last = text.substr(text.size() - tail);
    const bool continues = (static_cast<unsigned char>(last.front()) & 0xC0u) == 0x80u;
    if (continues) continue;
    return utf8_next(last).state == utf8_state::incomplete ? tail : 0;
  }
  return 0;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto step = utf8_next(text);
    out.append(step.state == utf8_state::valid ? text.substr(0, step.length) : utf8_replacement);
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace kvern::actors
