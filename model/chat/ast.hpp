#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/chat/text.hpp"

namespace kvern::chat {

struct filter_entry;
struct test_entry;

/// The tree of a compiled template: immutable and shared by all renderings. Its depth is bounded by the parser
/// (`max_nesting`): chains of operators, of postfix steps and of branches are flat vectors, so nothing that walks the
/// tree recurses by the length of the source.
namespace ast {

/// Deepest nesting of brackets and blocks that compiles.
inline constexpr int max_nesting = 150;

/// Most keywords of a call, parameters of a macro and blocks of a template: the parser compares each with those before.
inline constexpr std::size_t max_names = 1000;

/// A variable's number, an index of `tree::symbols`.
using symbol = std::uint32_t;

enum class expr_kind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  string,
  name,
  list,
  tuple,
  dict,
  unary,
  chain,
  concat,
  logic,
  compare,
  conditional,
  postfix,
  slice
};

struct expr {
  expr(expr_kind k, int l) : kind(k), line(l) {}
  virtual ~expr() = default;
  expr(const expr&) = delete;
  expr& operator=(const expr&) = delete;
  expr_kind kind;
  int line;
};
using expr_ptr = std::unique_ptr<expr>;

struct constant : expr {
  using expr::expr;
  bool boolean = false;
  __int128 integer = 0;
  double real = 0;
  /// A string's bytes; sealed. Mutable only because a `text` points to a store that, elsewhere, may grow.
  mutable text_store string;
};

struct name : expr {
  name(int l, symbol s) : expr(expr_kind::name, l), id(s) {}
  symbol id;
};

/// list, tuple, concat, and logic (`conjunction`: and, else or).
struct sequence : expr {
  using expr::expr;
  std::vector<expr_ptr> items;
  bool conjunction = false;
};

struct dict : expr {
  explicit dict(int l) : expr(expr_kind::dict, l) {}
  std::vector<std::pair<expr_ptr, expr_ptr>> items;
};

enum class op : std::uint8_t {
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,
  neg,
  pos,
  invert,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};

/// `operators`, the last one applied first.
struct unary : expr {
  explicit unary(int l) : expr(expr_kind::unary, l) {}
  std::vector<op> operators;
  expr_ptr operand;
};

/// chain: first op operand op operand ..., from left to right; compare: a chain of comparisons.
struct chain : expr {
  using expr::expr;
  expr_ptr first;
  std::vector<std::pair<op, expr_ptr>> rest;
};

/// value if test else value if test else ... otherwise (null: undefined).
struct conditional : expr {
  explicit conditional(int l) : expr(expr_kind::conditional, l) {}
  std::vector<std::pair<expr_ptr, expr_ptr>> branches;
  expr_ptr otherwise;
};

/// start:stop:step, each may be null. Only inside the brackets of a postfix step.
struct slice : expr {
  explicit slice(int l) : expr(expr_kind::slice, l) {}
  expr_ptr start, stop, step;
  /// Of a literal: Jinja works it out at compile time, where a slice that fails is undefined and not an error.
  bool of_literal = false;
};

struct call_arguments {
  std::vector<expr_ptr> positional;
  std::vector<std::pair<std::string, expr_ptr>> named;
  expr_ptr star, star_star;
};

enum class step_kind : std::uint8_t { attribute, item, call, filter, test };

struct step {
  step_kind kind = step_kind::attribute;
  int line = 1;
  std::string name;                      ///< attribute, filter or test
  mutable text_store name_text;          ///< `name` as a string of the template; sealed
  expr_ptr item;                         ///< item
  call_arguments arguments;              ///< call, filter, test
  const filter_entry* filter = nullptr;  ///< null: unknown, an error when reached
  const test_entry* test = nullptr;      ///< likewise
  bool negated = false;                  ///< test
};

struct postfix : expr {
  explicit postfix(int l) : expr(expr_kind::postfix, l) {}
  expr_ptr base;
  std::vector<step> steps;
};

/// What a value is assigned to: a name, a name's attribute (namespaces), or several targets.
struct target {
  symbol id = 0;
  std::optional<std::string> attribute;
  std::vector<target> parts;  ///< not empty or `unpack`: unpacks
  bool unpack = false;
};

enum class statement_kind : std::uint8_t {
  text,
  print,
  branch,
  loop,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  scope,
  block,
  break_loop,
  continue_loop,
  load
};

struct statement {
  statement(statement_kind k, int l) : kind(k), line(l) {}
  virtual ~statement() = default;
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  statement_kind kind;
  int line;
};
using body = std::vector<std::unique_ptr<statement>>;

struct text_statement : statement {
  text_statement(int l, std::string s) : statement(statement_kind::text, l), source(std::move(s), true) {}
  mutable text_store source;  ///< sealed
};

struct print_statement : statement {
  explicit print_statement(int l) : statement(statement_kind::print, l) {}
  std::vector<expr_ptr> values;
};

struct branch_statement : statement {
  explicit branch_statement(int l) : statement(statement_kind::branch, l) {}
  std::vector<std::pair<expr_ptr, body>> branches;
  body otherwise;
};

struct loop_statement : statement {
  explicit loop_statement(int l) : statement(statement_kind::loop, l) {}
  target variable;
  expr_ptr iterable;
  expr_ptr filter;  ///< may be null
  bool recursive = false;
  body content;
  body otherwise;
};

struct set_statement : statement {
  explicit set_statement(int l) : statement(statement_kind::set, l) {}
  target variable;
  expr_ptr value;
};

/// set_block (`variable`), filter_block (output filtered by `filters`), scope.
struct capture_statement : statement {
  using statement::statement;
  target variable;
  std::vector<step> filters;
  body content;
};

struct parameter {
  symbol id = 0;
  std::string name;
};

/// A macro, or the body of a call block.
struct macro_definition {
  std::string name;
  std::vector<parameter> parameters;
  std::vector<expr_ptr> defaults;  ///< of the last parameters
  body content;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct macro_statement : statement {
  explicit macro_statement(int l) : statement(statement_kind::macro, l) {}
  symbol id = 0;
  macro_definition macro;
};

struct call_statement : statement {
  explicit call_statement(int l) : statement(statement_kind::call_block, l) {}
  macro_definition caller;
  expr_ptr call;  ///< a postfix whose last step is a call
};

struct with_statement : statement {
  explicit with_statement(int l) : statement(statement_kind::with, l) {}
  std::vector<std::pair<target, expr_ptr>> bindings;
  body content;
};

struct block_statement : statement {
  explicit block_statement(int l) : statement(statement_kind::block, l) {}
  std::string name;
  bool scoped = false;
  body content;
};

struct tree {
  body content;
  std::vector<std::string> symbols;
  std::vector<const block_statement*> blocks;
  symbol loop = 0, caller = 0, varargs = 0, kwargs = 0, self = 0;
};

}  // namespace ast
}  // namespace kvern::chat
