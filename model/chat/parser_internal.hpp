#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/chat/ast.hpp"
#include "model/chat/lexer.hpp"

namespace kvern::chat {

/// Thrown inside the parser and caught by `parse`.
struct parse_problem {
  const char* code;
  int line;
  std::string reason;
};

/// Recursive descent over the tokens; recursion is bounded by `ast::max_nesting`.
class parser {
 public:
  explicit parser(std::vector<lexeme> tokens);
  std::unique_ptr<ast::tree> run();

 private:
  using expr_ptr = ast::expr_ptr;
  using names = std::initializer_list<std::string_view>;

  /// Counts one level of nesting.
  class nested {
   public:
    explicit nested(parser& p);
    ~nested() { --parser_.depth_; }
    nested(const nested&) = delete;
    nested& operator=(const nested&) = delete;

   private:
    parser& parser_;
  };

  /// While it lives, unknown filters and tests are errors at once (`soft` false) or only when reached.
  class softness {
   public:
    softness(parser& p, bool soft) : parser_(p), before_(p.soft_) { p.soft_ = soft; }
    ~softness() { parser_.soft_ = before_; }
    softness(const softness&) = delete;
    softness& operator=(const softness&) = delete;

   private:
    parser& parser_;
    bool before_;
  };

  // Tokens.
  const lexeme& current() const { return tokens_[at_]; }
  const lexeme& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  lexeme take();
  bool is(token_kind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(token_kind::op) && current().text == op; }
  bool is_name(std::string_view name) const { return is(token_kind::name) && current().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string take_name();
  void expect(token_kind kind);
  [[noreturn]] void fail_here(std::string reason) const;
  [[noreturn]] void unexpected(std::string_view wanted) const;
  /// For one more name beside `count` others.
  void check_names(std::size_t count, std::string_view what) const;
  ast::symbol intern(const std::string& name);

  // Expressions.
  expr_ptr expression(bool with_condition = true);
  expr_ptr logic(bool conjunction);
  expr_ptr negation();
  expr_ptr comparison();
  expr_ptr sum();
  expr_ptr concat();
  expr_ptr product();
  expr_ptr power();
  expr_ptr unary(bool with_filter);
  expr_ptr primary();
  expr_ptr string();
  expr_ptr integer();
  expr_ptr list();
  expr_ptr dict();
  expr_ptr tuple(bool with_condition, names end_names, bool parenthesized);
  expr_ptr postfix(expr_ptr base, bool filters);
  bool postfix_step(std::vector<ast::step>& steps, bool filters);
  ast::step attribute_or_item();
  expr_ptr subscript();
  ast::step filter_step();
  ast::step test_step();
  ast::call_arguments arguments();
  template <class Next>
  expr_ptr chained(Next next, std::initializer_list<std::pair<std::string_view, ast::op>> ops);
  expr_ptr constant(ast::expr_kind kind);

  // Statements.
  ast::body statements(names ends);
  ast::body until_tag(names ends);
  std::unique_ptr<ast::statement> statement();
  std::unique_ptr<ast::statement> loop();
  std::unique_ptr<ast::statement> branch();
  std::unique_ptr<ast::statement> set();
  std::unique_ptr<ast::statement> macro();
  std::unique_ptr<ast::statement> call_block();
  std::unique_ptr<ast::statement> filter_block();
  std::unique_ptr<ast::statement> with();
  std::unique_ptr<ast::statement> generation();
  std::unique_ptr<ast::statement> block();
  std::unique_ptr<ast::statement> print();
  std::unique_ptr<ast::statement> load(std::string_view tag);
  ast::target target(names end_names, bool with_namespace);
  ast::target single_target(bool with_namespace);
  void signature(ast::macro_definition& macro);
  void macro_body(ast::macro_definition& macro, std::string_view end);
  std::vector<ast::step> filters(bool first_without_pipe);

  std::vector<lexeme> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool soft_ = false;
  int loops_ = 0;
  std::vector<ast::macro_definition*> macros_;
  /// Unknown filters and tests that no condition guards: (line, what).
  std::vector<std::pair<int, std::string>> unknown_;
  std::unordered_map<std::string, ast::symbol> symbols_;
  std::unique_ptr<ast::tree> tree_;
};

}  // namespace kvern::chat
