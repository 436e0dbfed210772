#include "model/chat/parser.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/chat/parser_internal.hpp"

namespace kvern::chat {
namespace {

std::string described(const lexeme& t) {
  switch (t.kind) {
    case token_kind::data:
      return "text";
    case token_kind::variable_begin:
      return "'{{'";
    case token_kind::variable_end:
      return "'}}'";
    case token_kind::block_begin:
      return "'{%'";
    case token_kind::block_end:
      return "'%}'";
    case token_kind::string:
      return "a string";
    case token_kind::end:
      return "the end of the template";
    default:
      return fmt::format("'{}'", t.text);
  }
}

}  // namespace

parser::parser(std::vector<lexeme> tokens) : tokens_(std::move(tokens)), tree_(std::make_unique<ast::tree>()) {
  tree_->loop = intern("loop");
  tree_->caller = intern("caller");
  tree_->varargs = intern("varargs");
  tree_->kwargs = intern("kwargs");
  tree_->self = intern("self");
}

parser::nested::nested(parser& p) : parser_(p) {
  if (++p.depth_ > ast::max_nesting) {
    --p.depth_;
    throw parse_problem{"template_recursion", p.line(),
                        fmt::format("brackets or blocks nest deeper than {}", ast::max_nesting)};
  }
}

lexeme parser::take() {
  lexeme t = tokens_[at_];
  if (t.kind != token_kind::end) ++at_;
  return t;
}

bool parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  ++at_;
  return true;
}

bool parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  ++at_;
  return true;
}

void parser::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
}

void parser::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected(fmt::format("'{}'", name));
}

std::string parser::take_name() {
  if (!is(token_kind::name)) unexpected("a name");
  return take().text;
}

void parser::expect(token_kind kind) {
  if (!is(kind)) unexpected(described({kind, 0, {}}));
  take();
}

void parser::fail_here(std::string reason) const { throw parse_problem{"template_syntax", line(), std::move(reason)}; }

void parser::unexpected(std::string_view wanted) const {
  fail_here(fmt::format("expected {}, got {}", wanted, described(current())));
}

void parser::check_names(std::size_t count, std::string_view what) const {
  if (count >= ast::max_names) fail_here(fmt::format("more than {} {}", ast::max_names, what));
}

ast::symbol parser::intern(const std::string& name) {
  const auto [it, fresh] = symbols_.try_emplace(name, static_cast<ast::symbol>(tree_->symbols.size()));
  if (fresh) tree_->symbols.push_back(name);
  if (name == "caller" || name == "varargs" || name == "kwargs") {
    for (ast::macro_definition* m : macros_) {
      m->uses_caller = m->uses_caller || name == "caller";
      m->uses_varargs = m->uses_varargs || name == "varargs";
      m->uses_kwargs = m->uses_kwargs || name == "kwargs";
    }
  }
  return it->second;
}

std::unique_ptr<ast::tree> parser::run() {
  tree_->content = until_tag({});
  if (!unknown_.empty()) throw parse_problem{"template_syntax", unknown_.front().first, unknown_.front().second};
  return std::move(tree_);
}

result<std::unique_ptr<const ast::tree>> parse(std::string_view source) {
  auto tokens = tokenize(source);
  if (!tokens) return std::unexpected(std::move(tokens.error()));
  try {
    return parser(std::move(*tokens)).run();
  } catch (const parse_problem& p) {
    return fail(p.code, fmt::format("chat template, line {}: {}", p.line, p.reason));
  }
}

}  // namespace kvern::chat
