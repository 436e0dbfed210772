#include <fmt/format.h>

#include <utility>

#include "model/chat/builtins.hpp"
#include "model/chat/parser_internal.hpp"

namespace kvern::chat {

using ast::statement_kind;
using statement_ptr = std::unique_ptr<ast::statement>;

/// Text, prints and tags up to a tag of `ends` (its name is then the current token), or to the end of the template.
ast::body parser::until_tag(names ends) {
  const nested level(*this);
  ast::body out;
  for (;;) {
    if (is(token_kind::end)) return out;
    if (is(token_kind::data)) {
      const int at = line();
      out.push_back(std::make_unique<ast::text_statement>(at, take().text));
    } else if (is(token_kind::variable_begin)) {
      auto node = std::make_unique<ast::print_statement>(line());
      take();
      node->values.push_back(tuple(true, {}, false));
      expect(token_kind::variable_end);
      out.push_back(std::move(node));
    } else {
      expect(token_kind::block_begin);
      for (const std::string_view e : ends) {
        if (is_name(e)) return out;
      }
      out.push_back(statement());
      expect(token_kind::block_end);
    }
  }
}

/// The body of a tag: from the end of its opening tag to a tag of `ends`.
ast::body parser::statements(names ends) {
  skip_op(":");
  expect(token_kind::block_end);
  ast::body out = until_tag(ends);
  if (is(token_kind::end)) {
    std::string wanted;
    for (const std::string_view e : ends) wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", e);
    fail_here(fmt::format("the template ends where {} is missing", wanted));
  }
  return out;
}

statement_ptr parser::statement() {
  if (!is(token_kind::name)) unexpected("the name of a tag");
  const std::string tag = current().text;
  if (tag == "for") return loop();
  if (tag == "if") return branch();
  if (tag == "set") return set();
  if (tag == "macro") return macro();
  if (tag == "call") return call_block();
  if (tag == "filter") return filter_block();
  if (tag == "with") return with();
  if (tag == "generation") return generation();
  if (tag == "block") return block();
  if (tag == "print") return print();
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return load(tag);
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail_here(fmt::format("'{}' outside a loop", tag));
    const int at = line();
    take();
    return std::make_unique<ast::statement>(tag == "break" ? statement_kind::break_loop : statement_kind::continue_loop,
                                            at);
  }
  fail_here(fmt::format("unknown tag '{}'", tag));
}

ast::target parser::single_target(bool with_namespace) {
  if (skip_op("(")) {
    ast::target t = target({}, with_namespace);
    expect_op(")");
    return t;
  }
  if (!is(token_kind::name)) unexpected("a name to assign to");
  const std::string name = current().text;
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (name == word) fail_here(fmt::format("cannot assign to '{}'", word));
  }
  ast::target t;
  t.id = intern(name);
  take();
  if (with_namespace && skip_op(".")) t.attribute = take_name();
  return t;
}

ast::target parser::target(names end_names, bool with_namespace) {
  const nested level(*this);
  ast::target all;
  for (;;) {
    bool end = is(token_kind::block_end) || is_op(")") || is_op("=");
    for (const std::string_view n : end_names) end = end || is_name(n);
    if (end) break;
    all.parts.push_back(single_target(with_namespace));
    if (!skip_op(",")) break;
    all.unpack = true;
  }
  if (all.unpack) return all;
  if (all.parts.empty()) unexpected("a name to assign to");
  ast::target only = std::move(all.parts.front());
  return only;
}

statement_ptr parser::loop() {
  auto node = std::make_unique<ast::loop_statement>(line());
  take();
  node->variable = target({"in"}, false);
  if (!node->variable.unpack && node->variable.id == tree_->loop) fail_here("a loop variable cannot be named 'loop'");
  expect_name("in");
  node->iterable = tuple(false, {"recursive"}, false);
  if (skip_name("if")) node->filter = expression();
  node->recursive = skip_name("recursive");
  const softness hard(*this, false);
  ++loops_;
  node->content = statements({"endfor", "else"});
  --loops_;
  if (skip_name("else")) node->otherwise = statements({"endfor"});
  take();
  return node;
}

statement_ptr parser::branch() {
  auto node = std::make_unique<ast::branch_statement>(line());
  const softness soft(*this, true);
  take();
  for (;;) {
    expr_ptr test = tuple(false, {}, false);
    node->branches.emplace_back(std::move(test), statements({"elif", "else", "endif"}));
    if (skip_name("elif")) continue;
    if (skip_name("else")) node->otherwise = statements({"endif"});
    take();
    return node;
  }
}

statement_ptr parser::set() {
  const int at = line();
  take();
  ast::target variable = target({}, true);
  if (skip_op("=")) {
    auto node = std::make_unique<ast::set_statement>(at);
    node->variable = std::move(variable);
    node->value = tuple(true, {}, false);
    return node;
  }
  auto node = std::make_unique<ast::capture_statement>(statement_kind::set_block, at);
  node->variable = std::move(variable);
  const softness hard(*this, false);
  node->filters = filters(false);
  node->content = statements({"endset"});
  take();
  return node;
}

std::vector<ast::step> parser::filters(bool first_without_pipe) {
  std::vector<ast::step> out;
  while (first_without_pipe || skip_op("|")) {
    first_without_pipe = false;
    out.push_back(filter_step());
  }
  return out;
}

void parser::signature(ast::macro_definition& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const std::string name = take_name();
    check_names(macro.parameters.size(), "parameters of a macro");
    for (const auto& other : macro.parameters) {
      if (other.name == name) fail_here(fmt::format("the parameter '{}' is repeated", name));
    }
    macro.parameters.push_back({intern(name), name});
    if (skip_op("=")) {
      macro.defaults.push_back(expression());
    } else if (!macro.defaults.empty()) {
      fail_here("a parameter without a default follows one with a default");
    }
  }
  expect_op(")");
}

void parser::macro_body(ast::macro_definition& macro, std::string_view end) {
  const softness hard(*this, false);
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  macro.content = statements({end});
  macros_.pop_back();
  loops_ = loops;
  take();
}

statement_ptr parser::macro() {
  auto node = std::make_unique<ast::macro_statement>(line());
  take();
  node->macro.name = take_name();
  node->id = intern(node->macro.name);
  signature(node->macro);
  macro_body(node->macro, "endmacro");
  return node;
}

statement_ptr parser::call_block() {
  auto node = std::make_unique<ast::call_statement>(line());
  take();
  if (is_op("(")) signature(node->caller);
  node->caller.name = "caller";
  node->call = expression();
  const bool is_call = node->call->kind == ast::expr_kind::postfix &&
                       static_cast<const ast::postfix&>(*node->call).steps.back().kind == ast::step_kind::call;
  if (!is_call) fail_here("a call block needs a call");
  macro_body(node->caller, "endcall");
  return node;
}

statement_ptr parser::filter_block() {
  auto node = std::make_unique<ast::capture_statement>(statement_kind::filter_block, line());
  take();
  const softness hard(*this, false);
  node->filters = filters(true);
  node->content = statements({"endfilter"});
  take();
  return node;
}

statement_ptr parser::generation() {
  auto node = std::make_unique<ast::capture_statement>(statement_kind::scope, line());
  take();
  const softness hard(*this, false);
  const int loops = std::exchange(loops_, 0);
  node->content = statements({"endgeneration"});
  loops_ = loops;
  take();
  return node;
}

statement_ptr parser::with() {
  auto node = std::make_unique<ast::with_statement>(line());
  take();
  while (!is(token_kind::block_end)) {
    if (!node->bindings.empty()) expect_op(",");
    ast::target t = target({}, false);
    expect_op("=");
    expr_ptr value = expression();
    node->bindings.emplace_back(std::move(t), std::move(value));
  }
  const softness hard(*this, false);
  node->content = statements({"endwith"});
  take();
  return node;
}

statement_ptr parser::block() {
  auto node = std::make_unique<ast::block_statement>(line());
  take();
  node->name = take_name();
  check_names(tree_->blocks.size(), "blocks");
  for (const ast::block_statement* other : tree_->blocks) {
    if (other->name == node->name) fail_here(fmt::format("block '{}' is defined twice", node->name));
  }
  node->scoped = skip_name("scoped");
  skip_name("required");
  tree_->blocks.push_back(node.get());
  const softness hard(*this, false);
  const int loops = std::exchange(loops_, 0);
  node->content = statements({"endblock"});
  loops_ = loops;
  take();
  skip_name(node->name);
  return node;
}

statement_ptr parser::print() {
  auto node = std::make_unique<ast::print_statement>(line());
  take();
  while (!is(token_kind::block_end)) {
    if (!node->values.empty()) expect_op(",");
    node->values.push_back(expression());
  }
  return node;
}

/// Tags that load another template: they parse, and fail when reached, for there is nothing to load from.
statement_ptr parser::load(std::string_view tag) {
  auto node = std::make_unique<ast::statement>(statement_kind::load, line());
  take();
  expression();
  const auto context = [&] {
    if ((is_name("with") || is_name("without")) && ahead().kind == token_kind::name && ahead().text == "context") {
      at_ += 2;
    }
  };
  if (tag == "include") {
    if (skip_name("ignore")) expect_name("missing");
    context();
  } else if (tag == "import") {
    expect_name("as");
    intern(take_name());
    context();
  } else if (tag == "from") {
    expect_name("import");
    do {
      context();
      if (is(token_kind::block_end)) break;
      take_name();
      if (skip_name("as")) take_name();
    } while (skip_op(","));
    context();
  }
  return node;
}

}  // namespace kvern::chat
