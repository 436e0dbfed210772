#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/chat/builtins.hpp"
#include "model/chat/parser_internal.hpp"

namespace kvern::chat {
namespace {

bool is_literal(const ast::expr& e) {
  switch (e.kind) {
    case ast::expr_kind::none:
    case ast::expr_kind::boolean:
    case ast::expr_kind::integer:
    case ast::expr_kind::real:
    case ast::expr_kind::string:
      return true;
    case ast::expr_kind::list:
    case ast::expr_kind::tuple: {
      const auto& items = static_cast<const ast::sequence&>(e).items;
      return std::all_of(items.begin(), items.end(), [](const auto& item) { return is_literal(*item); });
    }
    case ast::expr_kind::dict: {
      const auto& items = static_cast<const ast::dict&>(e).items;
      return std::all_of(items.begin(), items.end(),
                         [](const auto& item) { return is_literal(*item.first) && is_literal(*item.second); });
    }
    default:
      return false;
  }
}

bool is_literal_slice(const ast::slice& s) {
  const auto literal = [](const ast::expr_ptr& e) { return !e || is_literal(*e); };
  return literal(s.start) && literal(s.stop) && literal(s.step);
}

}  // namespace

ast::expr_ptr parser::postfix(expr_ptr base, bool filters) {
  std::vector<ast::step> steps;
  // Attributes and subscripts bind before the first filter or test; after one, only calls and further filters follow.
  while (postfix_step(steps, false)) {
  }
  if (filters) {
    while (postfix_step(steps, true)) {
    }
  }
  if (steps.empty()) return base;
  if (steps[0].kind == ast::step_kind::item && steps[0].item->kind == ast::expr_kind::slice && is_literal(*base)) {
    auto& slice = static_cast<ast::slice&>(*steps[0].item);
    slice.of_literal = is_literal_slice(slice);
  }
  auto node = std::make_unique<ast::postfix>(base->line);
  node->base = std::move(base);
  node->steps = std::move(steps);
  return node;
}

bool parser::postfix_step(std::vector<ast::step>& steps, bool filters) {
  if (is_op("(")) {
    ast::step s;
    s.kind = ast::step_kind::call;
    s.line = line();
    s.arguments = arguments();
    steps.push_back(std::move(s));
    return true;
  }
  if (!filters && (is_op(".") || is_op("["))) {
    steps.push_back(attribute_or_item());
    return true;
  }
  if (filters && is_op("|")) {
    take();
    steps.push_back(filter_step());
    return true;
  }
  if (filters && is_name("is")) {
    steps.push_back(test_step());
    return true;
  }
  return false;
}

ast::step parser::attribute_or_item() {
  ast::step s;
  s.line = line();
  if (skip_op(".")) {
    if (is(token_kind::name)) {
      s.kind = ast::step_kind::attribute;
      s.name = take().text;
      s.name_text = text_store(s.name, true);
    } else if (is(token_kind::integer)) {
      s.kind = ast::step_kind::item;
      s.item = integer();
    } else {
      unexpected("a name or a number");
    }
    return s;
  }
  expect_op("[");
  s.kind = ast::step_kind::item;
  auto all = std::make_unique<ast::sequence>(ast::expr_kind::tuple, line());
  while (!is_op("]")) {
    if (!all->items.empty()) expect_op(",");
    all->items.push_back(subscript());
  }
  expect_op("]");
  if (all->items.size() == 1) {
    s.item = std::move(all->items.front());
  } else {
    s.item = std::move(all);
  }
  return s;
}

ast::expr_ptr parser::subscript() {
  auto node = std::make_unique<ast::slice>(line());
  if (!is_op(":")) {
    expr_ptr first = expression();
    if (!is_op(":")) return first;
    node->start = std::move(first);
  }
  expect_op(":");
  const auto ends = [&] { return is_op("]") || is_op(","); };
  if (!is_op(":") && !ends()) node->stop = expression();
  if (skip_op(":") && !ends()) node->step = expression();
  return node;
}

ast::step parser::filter_step() {
  ast::step s;
  s.kind = ast::step_kind::filter;
  s.line = line();
  s.name = take_name();
  while (skip_op(".")) s.name += "." + take_name();
  if (is_op("(")) s.arguments = arguments();
  s.filter = find_filter(s.name);
  if (s.filter == nullptr && !soft_) unknown_.emplace_back(s.line, fmt::format("no filter named '{}'", s.name));
  return s;
}

ast::step parser::test_step() {
  ast::step s;
  s.kind = ast::step_kind::test;
  s.line = line();
  expect_name("is");
  s.negated = skip_name("not");
  s.name = take_name();
  while (skip_op(".")) s.name += "." + take_name();
  if (is_op("(")) {
    s.arguments = arguments();
  } else {
    const bool operand = is(token_kind::string) || is(token_kind::integer) || is(token_kind::real) || is_op("[") ||
                         is_op("{") || (is(token_kind::name) && !is_name("else") && !is_name("or") && !is_name("and"));
    if (operand) {
      if (is_name("is")) fail_here("tests cannot be chained with 'is'");
      s.arguments.positional.push_back(postfix(primary(), false));
    }
  }
  s.test = find_test(s.name);
  if (s.test == nullptr && !soft_) unknown_.emplace_back(s.line, fmt::format("no test named '{}'", s.name));
  return s;
}

ast::call_arguments parser::arguments() {
  const nested level(*this);
  ast::call_arguments args;
  const auto ensure = [&](bool ok) {
    if (!ok) fail_here("invalid order of arguments in a call");
  };
  expect_op("(");
  bool comma = false;
  while (!is_op(")")) {
    if (comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(!args.star && !args.star_star);
      args.star = expression();
    } else if (skip_op("**")) {
      ensure(!args.star_star);
      args.star_star = expression();
    } else if (is(token_kind::name) && ahead().kind == token_kind::op && ahead().text == "=") {
      ensure(!args.star_star);
      std::string name = take().text;
      expect_op("=");
      check_names(args.named.size(), "keyword arguments in a call");
      for (const auto& [other, value] : args.named) {
        if (other == name) fail_here("a keyword argument is repeated");
      }
      args.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!args.star && !args.star_star && args.named.empty());
      args.positional.push_back(expression());
    }
    comma = true;
  }
  expect_op(")");
  return args;
}

}  // namespace kvern::chat
