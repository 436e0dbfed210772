#include "model/gguf/quoted_name.hpp"

#include <fmt/format.h>

#include <iterator>

namespace kvern {

std::string quoted_name(std::string_view name) {
  constexpr std::size_t longest = 100;
  std::string text = "'";
  for (const char c : name.substr(0, longest)) {
    if (c >= 0x20 && c < 0x7f) {
      text += c;
    } else {
      fmt::format_to(std::back_inserter(text), "\\x{:02X}", static_cast<unsigned char>(c));
    }
  }
  if (name.size() > longest) text += "...";
  return text += "'";
}

}  // namespace kvern
