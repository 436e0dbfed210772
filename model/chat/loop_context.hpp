#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/chat/evaluator.hpp"

namespace kvern::chat {

/// The variable `loop` of one for statement. Reads its iterable as late as it can: `last` and `nextitem` look one
/// element ahead, `length` and what counts from the end read it all.
struct loop_node : object_node {
  loop_node(runtime& rt, const val& over) : source(rt, over) {}

  bool next(val& out);
  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return recursive != nullptr; }
  /// loop(iterable) of a recursive for: renders the body for it.
  val call(runtime& rt, arguments& args) override;
  bool attribute(runtime& rt, std::string_view name, val& out) override;

  evaluator* owner = nullptr;
  const ast::loop_statement* recursive = nullptr;
  scope_node* home = nullptr;
  int depth = 0;

 private:
  bool peek(val& out);
  std::size_t length(runtime& rt);
  static val cycle(runtime& rt, const val& self, arguments& args);
  static val changed(runtime& rt, const val& self, arguments& args);

  cursor source;
  std::vector<val> ahead_;  ///< read but not yet given, from `ahead_at_` on
  std::size_t ahead_at_ = 0;
  std::size_t given_ = 0;
  std::optional<val> current_, previous_;
  std::optional<std::vector<val>> changed_;
};

}  // namespace kvern::chat
