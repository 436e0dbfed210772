#include <fmt/format.h>

#include <utility>

#include "model/chat/evaluator.hpp"
#include "model/chat/operators.hpp"

namespace kvern::chat {

/// A macro with the scope it was defined in.
struct macro_node : object_node {
  evaluator* owner = nullptr;
  const ast::macro_definition* definition = nullptr;
  scope_node* home = nullptr;
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  val call(runtime& rt, arguments& args) override {
    const runtime::nesting level(rt);
    return owner->call_macro(*definition, home, args);
  }
  bool attribute(runtime& rt, std::string_view name, val& out) override {
    if (name == "name") {
      out = rt.string_view(definition->name, true);
    } else if (name == "arguments") {
      std::vector<val> names;
      for (const auto& p : definition->parameters) names.push_back(rt.string_view(p.name, true));
      out = rt.tuple(std::move(names));
    } else if (name == "caller" || name == "catch_varargs" || name == "catch_kwargs") {
      out = val::of(name == "caller"          ? definition->uses_caller
                    : name == "catch_varargs" ? definition->uses_varargs
                                              : definition->uses_kwargs);
    } else {
      return false;
    }
    return true;
  }
};

val evaluator::make_macro(const ast::macro_definition& m) {
  auto* n = rt_.make<macro_node>();
  n->owner = this;
  n->definition = &m;
  n->home = scope_;
  capture(scope_);
  return val::of(n);
}

val evaluator::call_macro(const ast::macro_definition& m, scope_node* home, arguments& args) {
  const std::size_t n = m.parameters.size();
  std::vector<std::optional<val>> given(n);
  for (std::size_t i = 0; i < args.positional.size() && i < n; ++i) given[i] = args.positional[i];
  std::optional<val> caller;
  auto* extra = m.uses_kwargs ? rt_.make<dict_node>() : nullptr;
  for (const auto& [name, v] : args.named) {
    rt_.step(n / 16);
    std::size_t i = 0;
    while (i < n && m.parameters[i].name != name) ++i;
    if (i < n && !given[i]) {
      given[i] = v;
    } else if (name == "caller" && m.uses_caller && i == n) {
      caller = v;
    } else if (extra != nullptr && i == n) {
      rt_.insert(*extra, rt_.string(name), v);
    } else {
      fail_type(fmt::format("macro '{}' takes no such keyword argument, or takes it once", m.name));
    }
  }
  if (args.positional.size() > n && !m.uses_varargs) {
    fail_type(fmt::format("macro '{}' takes not more than {} argument(s)", m.name, n));
  }
  const inner_scope scope(*this, home);
  for (std::size_t i = 0; i < n; ++i) {
    const ast::parameter& p = m.parameters[i];
    const std::size_t first_default = n - m.defaults.size();
    if (given[i]) {
      assign(p.id, *given[i]);
    } else if (i >= first_default) {
      assign(p.id, eval(*m.defaults[i - first_default]));
    } else {
      assign(p.id, rt_.undefined(fmt::format("parameter '{}' was not provided", p.name)));
    }
  }
  if (m.uses_caller) {
    bool is_parameter = false;
    for (const auto& p : m.parameters) is_parameter = is_parameter || p.id == tree_.caller;
    if (!is_parameter) assign(tree_.caller, caller ? *caller : rt_.undefined("no caller defined"));
  }
  if (m.uses_varargs) {
    std::vector<val> rest;
    for (std::size_t i = n; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    assign(tree_.varargs, rt_.tuple(std::move(rest)));
  }
  if (extra != nullptr) assign(tree_.kwargs, val::of(extra));
  return captured(m.content);
}

}  // namespace kvern::chat
