#include <fmt/format.h>

#include "model/chat/evaluator.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"

namespace kvern::chat {

using ast::expr_kind;

val evaluator::eval(const ast::expr& e) {
  rt_.step();
  rt_.check_stack();
  switch (e.kind) {
    case expr_kind::none:
    case expr_kind::boolean:
    case expr_kind::integer:
    case expr_kind::real:
    case expr_kind::string:
      return constant(static_cast<const ast::constant&>(e));
    case expr_kind::name:
      return lookup(static_cast<const ast::name&>(e).id);
    case expr_kind::list:
    case expr_kind::tuple:
      return sequence(static_cast<const ast::sequence&>(e));
    case expr_kind::dict:
      return dict(static_cast<const ast::dict&>(e));
    case expr_kind::unary:
      return unary(static_cast<const ast::unary&>(e));
    case expr_kind::chain:
      return chain(static_cast<const ast::chain&>(e));
    case expr_kind::concat:
      return concat(static_cast<const ast::sequence&>(e));
    case expr_kind::logic:
      return logic(static_cast<const ast::sequence&>(e));
    case expr_kind::compare:
      return compare_chain(static_cast<const ast::chain&>(e));
    case expr_kind::conditional:
      return conditional(static_cast<const ast::conditional&>(e));
    case expr_kind::postfix:
      return postfix(static_cast<const ast::postfix&>(e));
    case expr_kind::slice:
      return val::none();
  }
  return val::none();
}

val evaluator::constant(const ast::constant& e) {
  switch (e.kind) {
    case expr_kind::boolean:
      return val::of(e.boolean);
    case expr_kind::integer:
      return val::of(e.integer);
    case expr_kind::real:
      return val::of(e.real);
    case expr_kind::string:
      return val::of(text::whole(e.string));
    default:
      return val::none();
  }
}

val evaluator::unary(const ast::unary& e) {
  val v = eval(*e.operand);
  for (auto op = e.operators.rbegin(); op != e.operators.rend(); ++op) {
    rt_.step();
    v = *op == ast::op::invert ? val::of(!truth(v)) : *op == ast::op::neg ? negated(v) : positive(v);
  }
  return v;
}

val evaluator::chain(const ast::chain& e) {
  val v = eval(*e.first);
  for (const auto& [op, operand] : e.rest) v = binary(rt_, op, v, eval(*operand));
  return v;
}

val evaluator::compare_chain(const ast::chain& e) {
  val left = eval(*e.first);
  for (const auto& [op, operand] : e.rest) {
    const val right = eval(*operand);
    if (!compare(rt_, op, left, right)) return val::of(false);
    left = right;
  }
  return val::of(true);
}

val evaluator::logic(const ast::sequence& e) {
  val v;
  for (const auto& item : e.items) {
    v = eval(*item);
    if (truth(v) != e.conjunction) return v;
  }
  return v;
}

val evaluator::concat(const ast::sequence& e) {
  text whole;
  for (const auto& item : e.items) {
    const val v = eval(*item);
    if (v.is_undefined() && v.why().security) fail_use(v);
    whole = joined(rt_, whole, str_of(rt_, v).string());
  }
  return val::of(whole);
}

val evaluator::conditional(const ast::conditional& e) {
  for (const auto& [value, test] : e.branches) {
    if (truth(eval(*test))) return eval(*value);
  }
  return e.otherwise ? eval(*e.otherwise) : rt_.undefined("a conditional without an else had no value");
}

val evaluator::sequence(const ast::sequence& e) {
  std::vector<val> items;
  items.reserve(e.items.size());
  for (const auto& item : e.items) items.push_back(eval(*item));
  return rt_.list(std::move(items), e.kind == expr_kind::tuple ? flavour::tuple : flavour::list);
}

val evaluator::dict(const ast::dict& e) {
  auto* d = rt_.make<dict_node>();
  for (const auto& [key, value] : e.items) {
    const val k = eval(*key);
    rt_.insert(*d, k, eval(*value));
  }
  return val::of(d);
}

val evaluator::postfix(const ast::postfix& e) {
  val v = eval(*e.base);
  for (const ast::step& s : e.steps) v = apply(s, v);
  return v;
}

val evaluator::apply(const ast::step& s, const val& v) {
  rt_.step();
  switch (s.kind) {
    case ast::step_kind::attribute:
      return attribute(rt_, v, text::whole(s.name_text));
    case ast::step_kind::item: {
      if (s.item->kind != expr_kind::slice) return item(rt_, v, eval(*s.item));
      const auto& bounds = static_cast<const ast::slice&>(*s.item);
      const val start = eval_or_none(bounds.start);
      const val stop = eval_or_none(bounds.stop);
      return sliced(rt_, v, start, stop, eval_or_none(bounds.step), bounds.of_literal);
    }
    case ast::step_kind::call:
      return apply_call(s, v, nullptr);
    case ast::step_kind::filter: {
      if (s.filter == nullptr) {
        throw template_failure{"template_runtime", fmt::format("line {}: no filter named '{}'", s.line, s.name)};
      }
      arguments args = evaluated(s.arguments);
      return s.filter->run(rt_, v, args);
    }
    case ast::step_kind::test: {
      if (s.test == nullptr) {
        throw template_failure{"template_runtime", fmt::format("line {}: no test named '{}'", s.line, s.name)};
      }
      arguments args = evaluated(s.arguments);
      return val::of(s.test->run(rt_, v, args) != s.negated);
    }
  }
  return val::none();
}

val evaluator::apply_call(const ast::step& s, const val& f, const val* caller) {
  arguments args = evaluated(s.arguments);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return call(rt_, f, args);
}

arguments evaluator::evaluated(const ast::call_arguments& from) {
  arguments args;
  args.positional.reserve(from.positional.size());
  for (const auto& e : from.positional) args.positional.push_back(eval(*e));
  if (from.star) {
    const val more = eval(*from.star);
    for (const val& v : elements(rt_, more)) args.positional.push_back(v);
  }
  for (const auto& [name, e] : from.named) args.named.emplace_back(name, eval(*e));
  if (from.star_star) {
    const val more = eval(*from.star_star);
    if (!more.is(kind::dict)) fail_type("the argument after ** must be a mapping");
    for (const auto& [key, v] : more.dict().items) {
      if (!key.is_string()) fail_type("keywords must be strings");
      rt_.step(1 + args.named.size() / 16);
      for (const auto& [name, other] : args.named) {
        if (name == key.view()) fail_type("a keyword argument is given twice");
      }
      rt_.memory(sizeof(args.named[0]) + key.view().size());
      args.named.emplace_back(std::string(key.view()), v);
    }
  }
  return args;
}

}  // namespace kvern::chat
