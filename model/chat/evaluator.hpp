#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat/ast.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// The variables of one scope; lookups go on in the scope it lies in.
struct scope_node : node {
  scope_node* outer = nullptr;
  bool captured = false;  ///< a macro remembers it, so it is not reused
  std::vector<std::pair<ast::symbol, val>> variables;
};

/// Runs one rendering of a tree. Not thread-safe; one per rendering.
class evaluator {
 public:
  evaluator(const ast::tree& tree, runtime& rt, const value& context);

  /// The rendered text.
  text run();

 private:
  friend struct macro_node;
  friend struct loop_node;
  friend struct self_node;

  /// How a body ended.
  enum class flow : std::uint8_t { normal, broken, continued };

  /// A scope inside the current one while it lives.
  class inner_scope {
   public:
    inner_scope(evaluator& e, scope_node* outer);
    ~inner_scope();
    inner_scope(const inner_scope&) = delete;
    inner_scope& operator=(const inner_scope&) = delete;

   private:
    evaluator& evaluator_;
    scope_node* before_;
    scope_node* own_;
  };

  // Variables.
  val lookup(ast::symbol id);
  void assign(ast::symbol id, const val& v);
  void assign(const ast::target& t, const val& v);
  static void capture(scope_node* scope);

  // Expressions.
  val eval(const ast::expr& e);
  val eval_or_none(const ast::expr_ptr& e) { return e ? eval(*e) : val::none(); }
  val constant(const ast::constant& e);
  val unary(const ast::unary& e);
  val chain(const ast::chain& e);
  val compare_chain(const ast::chain& e);
  val logic(const ast::sequence& e);
  val concat(const ast::sequence& e);
  val conditional(const ast::conditional& e);
  val sequence(const ast::sequence& e);
  val dict(const ast::dict& e);
  val postfix(const ast::postfix& e);
  val apply(const ast::step& s, const val& v);
  val apply_call(const ast::step& s, const val& f, const val* caller);
  arguments evaluated(const ast::call_arguments& args);

  // Statements.
  flow execute(const ast::body& body);
  flow execute(const ast::statement& s);
  flow branch(const ast::branch_statement& s);
  void loop(const ast::loop_statement& s);
  void run_loop(const ast::loop_statement& s, const val& over, scope_node* outer, int depth);
  flow with(const ast::with_statement& s);
  void capture_block(const ast::capture_statement& s);
  void block(const ast::block_statement& s);
  void call_block(const ast::call_statement& s);
  void macro(const ast::macro_statement& s);
  val make_macro(const ast::macro_definition& m);
  val call_macro(const ast::macro_definition& m, scope_node* home, arguments& args);
  val captured(const ast::body& body);
  void put(const val& v);

  const ast::tree& tree_;
  runtime& rt_;
  const value& context_;
  scope_node* root_;
  scope_node* scope_;
  text_builder* out_ = nullptr;
  std::vector<std::optional<val>> globals_;
  std::vector<scope_node*> free_scopes_;
};

}  // namespace kvern::chat
