#include "model/chat/builtins.hpp"

#include <unordered_map>

namespace kvern::chat {

const filter_entry* find_filter(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, const filter_entry*> map;
    for (const auto& family :
         {text_filters(), layout_filters(), number_filters(), sequence_filters(), selection_filters()}) {
      for (const filter_entry& e : family) map.emplace(e.name, &e);
    }
    return map;
  }();
  const auto it = all.find(name);
  return it == all.end() ? nullptr : it->second;
}

}  // namespace kvern::chat
