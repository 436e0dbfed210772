#include "model/tokenizer/escaped_space.hpp"

#include <cstddef>

namespace kvern {
namespace {

void append_replaced(std::string_view text, std::string_view what, std::string_view with, std::string& out) {
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what)) {
    out += text.substr(0, at);
    out += with;
    text.remove_prefix(at + what.size());
  }
  out += text;
}

}  // namespace

void append_escaped(std::string_view text, std::string& out) { append_replaced(text, " ", escaped_space, out); }

void append_unescaped(std::string_view text, std::string& out) { append_replaced(text, escaped_space, " ", out); }

}  // namespace kvern
