#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "model/chat/builtins.hpp"
#include "model/chat/parser_internal.hpp"

namespace kvern::chat {

using ast::expr_kind;

template <class Next>
ast::expr_ptr parser::chained(Next next, std::initializer_list<std::pair<std::string_view, ast::op>> ops) {
  expr_ptr first = (this->*next)();
  std::unique_ptr<ast::chain> chain;
  for (;;) {
    const ast::op* found = nullptr;
    for (const auto& [symbol, op] : ops) {
      if (is_op(symbol)) found = &op;
    }
    if (found == nullptr) break;
    if (!chain) {
      chain = std::make_unique<ast::chain>(expr_kind::chain, line());
      chain->first = std::move(first);
    }
    const ast::op op = *found;
    take();
    chain->rest.emplace_back(op, (this->*next)());
  }
  if (chain) return chain;
  return first;
}

ast::expr_ptr parser::constant(expr_kind kind) { return std::make_unique<ast::constant>(kind, line()); }

ast::expr_ptr parser::expression(bool with_condition) {
  static constexpr int max_without_else = 16;
  const nested level(*this);
  const std::size_t known = unknown_.size();
  expr_ptr value = logic(false);
  if (!with_condition) return value;
  std::unique_ptr<ast::conditional> all;
  for (int without_else = 0;;) {
    if (!is_name("if")) {
      if (!all) return value;
      all->otherwise = std::move(value);
      return all;
    }
    const int at = take().line;
    expr_ptr test = logic(false);
    // What a condition guards may name unknown filters: they fail only when reached.
    unknown_.resize(known);
    if (skip_name("else")) {
      if (!all) all = std::make_unique<ast::conditional>(at);
      all->branches.emplace_back(std::move(value), std::move(test));
      value = logic(false);
      unknown_.resize(known);
      continue;
    }
    // Without an else it is itself the value of an `if` that may follow.
    if (++without_else > max_without_else) fail_here("too many conditions in a row without an else");
    auto alone = std::make_unique<ast::conditional>(at);
    alone->branches.emplace_back(std::move(value), std::move(test));
    value = std::move(alone);
  }
}

ast::expr_ptr parser::logic(bool conjunction) {
  const std::string_view word = conjunction ? "and" : "or";
  expr_ptr first = conjunction ? negation() : logic(true);
  if (!is_name(word)) return first;
  auto all = std::make_unique<ast::sequence>(expr_kind::logic, line());
  all->conjunction = conjunction;
  all->items.push_back(std::move(first));
  const std::size_t known = unknown_.size();
  while (skip_name(word)) {
    all->items.push_back(conjunction ? negation() : logic(true));
    unknown_.resize(known);
  }
  return all;
}

ast::expr_ptr parser::negation() {
  if (!is_name("not")) return comparison();
  auto node = std::make_unique<ast::unary>(line());
  while (skip_name("not")) node->operators.push_back(ast::op::invert);
  node->operand = comparison();
  return node;
}

ast::expr_ptr parser::comparison() {
  expr_ptr first = sum();
  std::unique_ptr<ast::chain> chain;
  for (;;) {
    static constexpr std::pair<std::string_view, ast::op> symbols[] = {{"==", ast::op::eq}, {"!=", ast::op::ne},
                                                                       {"<", ast::op::lt},  {"<=", ast::op::le},
                                                                       {">", ast::op::gt},  {">=", ast::op::ge}};
    std::optional<ast::op> op;
    std::size_t skip = 1;
    for (const auto& [symbol, o] : symbols) {
      if (is_op(symbol)) op = o;
    }
    if (is_name("in")) op = ast::op::in;
    if (is_name("not") && ahead().kind == token_kind::name && ahead().text == "in") {
      op = ast::op::not_in;
      skip = 2;
    }
    if (!op) break;
    if (!chain) {
      chain = std::make_unique<ast::chain>(expr_kind::compare, line());
      chain->first = std::move(first);
    }
    at_ += skip;
    chain->rest.emplace_back(*op, sum());
  }
  if (chain) return chain;
  return first;
}

ast::expr_ptr parser::sum() { return chained(&parser::concat, {{"+", ast::op::add}, {"-", ast::op::sub}}); }

ast::expr_ptr parser::concat() {
  expr_ptr first = product();
  if (!is_op("~")) return first;
  auto all = std::make_unique<ast::sequence>(expr_kind::concat, line());
  all->items.push_back(std::move(first));
  while (skip_op("~")) all->items.push_back(product());
  return all;
}

ast::expr_ptr parser::product() {
  return chained(&parser::power,
                 {{"*", ast::op::mul}, {"/", ast::op::div}, {"//", ast::op::floordiv}, {"%", ast::op::mod}});
}

ast::expr_ptr parser::power() {
  expr_ptr first = unary(true);
  if (!is_op("**")) return first;
  auto chain = std::make_unique<ast::chain>(expr_kind::chain, line());
  chain->first = std::move(first);
  while (skip_op("**")) chain->rest.emplace_back(ast::op::pow, unary(true));
  return chain;
}

ast::expr_ptr parser::unary(bool with_filter) {
  if (!is_op("-") && !is_op("+")) return postfix(primary(), with_filter);
  auto node = std::make_unique<ast::unary>(line());
  while (is_op("-") || is_op("+")) node->operators.push_back(take().text == "-" ? ast::op::neg : ast::op::pos);
  node->operand = postfix(primary(), false);
  return postfix(std::move(node), with_filter);
}

ast::expr_ptr parser::primary() {
  const lexeme& t = current();
  switch (t.kind) {
    case token_kind::name: {
      const std::string name = t.text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        expr_ptr node = constant(expr_kind::boolean);
        static_cast<ast::constant&>(*node).boolean = name[0] == 't' || name[0] == 'T';
        take();
        return node;
      }
      if (name == "none" || name == "None") {
        expr_ptr node = constant(expr_kind::none);
        take();
        return node;
      }
      auto node = std::make_unique<ast::name>(line(), intern(name));
      take();
      return node;
    }
    case token_kind::string:
      return string();
    case token_kind::integer:
      return integer();
    case token_kind::real: {
      expr_ptr node = constant(expr_kind::real);
      double v = 0;
      const auto [end, problem] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
      // Out of range is infinity or zero, as strtod has it.
      if (problem == std::errc::result_out_of_range) v = std::strtod(t.text.c_str(), nullptr);
      static_cast<ast::constant&>(*node).real = v;
      take();
      return node;
    }
    case token_kind::op:
      if (t.text == "(") {
        take();
        expr_ptr node = tuple(true, {}, true);
        expect_op(")");
        return node;
      }
      if (t.text == "[") return list();
      if (t.text == "{") return dict();
      [[fallthrough]];
    default:
      unexpected("an expression");
  }
}

ast::expr_ptr parser::string() {
  expr_ptr node = constant(expr_kind::string);
  std::string value;
  while (is(token_kind::string)) value += take().text;
  static_cast<ast::constant&>(*node).string = text_store(std::move(value), true);
  return node;
}

ast::expr_ptr parser::integer() {
  expr_ptr node = constant(expr_kind::integer);
  const std::string digits = take().text;
  int base = 10;
  std::size_t at = 0;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    const char low = static_cast<char>(digits[1] | 0x20);
    base = low == 'b' ? 2 : low == 'o' ? 8 : 16;
    at = 2;
  }
  __int128 v = 0;
  for (; at < digits.size(); ++at) {
    const char c = digits[at];
    const int d = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(v, static_cast<__int128>(base), &v) ||
        __builtin_add_overflow(v, static_cast<__int128>(d), &v)) {
      throw parse_problem{"template_limit", node->line, "an integer does not fit 127 bits"};
    }
  }
  static_cast<ast::constant&>(*node).integer = v;
  return node;
}

ast::expr_ptr parser::list() {
  auto node = std::make_unique<ast::sequence>(expr_kind::list, line());
  expect_op("[");
  while (!is_op("]")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("]")) break;
    node->items.push_back(expression());
  }
  expect_op("]");
  return node;
}

ast::expr_ptr parser::dict() {
  auto node = std::make_unique<ast::dict>(line());
  expect_op("{");
  while (!is_op("}")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("}")) break;
    expr_ptr key = expression();
    expect_op(":");
    expr_ptr value = expression();
    node->items.emplace_back(std::move(key), std::move(value));
  }
  expect_op("}");
  return node;
}

ast::expr_ptr parser::tuple(bool with_condition, names end_names, bool parenthesized) {
  const nested level(*this);
  auto node = std::make_unique<ast::sequence>(expr_kind::tuple, line());
  bool is_tuple = false;
  for (;;) {
    if (!node->items.empty()) expect_op(",");
    bool end = is(token_kind::variable_end) || is(token_kind::block_end) || is_op(")");
    for (const std::string_view n : end_names) end = end || is_name(n);
    if (end) break;
    node->items.push_back(expression(with_condition));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!node->items.empty()) return std::move(node->items.front());
    if (!parenthesized) unexpected("an expression");
  }
  return node;
}

}  // namespace kvern::chat
