#include "model/chat/evaluator.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/chat/loop_context.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"

namespace kvern::chat {

/// `self`: the template's blocks as functions.
struct self_node : object_node {
  evaluator* owner = nullptr;
  std::string_view type_name() const override { return "TemplateReference"; }
  bool attribute(runtime& rt, std::string_view name, val& out) override;
};

/// A block that `self` gives; calling it renders the block.
struct block_node : object_node {
  std::function<val()> render;
  std::string_view type_name() const override { return "BlockReference"; }
  bool callable() const override { return true; }
  val call(runtime& rt, arguments&) override {
    const runtime::nesting level(rt);
    return render();
  }
};

bool self_node::attribute(runtime& rt, std::string_view name, val& out) {
  rt.step(owner->tree_.blocks.size() / 16);
  for (const ast::block_statement* b : owner->tree_.blocks) {
    if (b->name != name) continue;
    auto* n = rt.make<block_node>();
    n->render = [e = owner, b] {
      const evaluator::inner_scope scope(*e, e->root_);
      return e->captured(b->content);
    };
    out = val::of(n);
    return true;
  }
  return false;
}

evaluator::evaluator(const ast::tree& tree, runtime& rt, const value& context)
    : tree_(tree),
      rt_(rt),
      context_(context),
      root_(rt.make<scope_node>()),
      scope_(root_),
      globals_(tree.symbols.size()) {
  root_->captured = true;
}

text evaluator::run() {
  text_builder out(rt_);
  out_ = &out;
  execute(tree_.content);
  return out.finish().string();
}

evaluator::inner_scope::inner_scope(evaluator& e, scope_node* outer) : evaluator_(e), before_(e.scope_) {
  if (e.free_scopes_.empty()) {
    own_ = e.rt_.make<scope_node>();
  } else {
    own_ = e.free_scopes_.back();
    e.free_scopes_.pop_back();
  }
  own_->outer = outer;
  e.scope_ = own_;
}

evaluator::inner_scope::~inner_scope() {
  evaluator_.scope_ = before_;
  if (own_->captured) return;
  own_->variables.clear();
  // A rendering that fails for want of memory must not fail again here; the scope is the runtime's either way.
  try {
    evaluator_.free_scopes_.push_back(own_);
  } catch (const std::bad_alloc&) {
  }
}

val evaluator::lookup(ast::symbol id) {
  for (const scope_node* s = scope_; s != nullptr; s = s->outer) {
    for (const auto& [known, v] : s->variables) {
      if (known == id) return v;
    }
    rt_.step(s->variables.size() / 16);
  }
  std::optional<val>& cached = globals_[id];
  if (cached) return *cached;
  const std::string& name = tree_.symbols[id];
  if (const object* o = context_.as_object()) {
    // Of a repeated key the last counts, as in JSON.
    for (auto it = o->rbegin(); it != o->rend(); ++it) {
      if (it->first == name) {
        cached = rt_.from(it->second);
        return *cached;
      }
    }
  }
  cached = find_global(rt_, name);
  if (!cached && id == tree_.self) {
    auto* self = rt_.make<self_node>();
    self->owner = this;
    cached = val::of(self);
  }
  if (!cached) cached = rt_.undefined(fmt::format("'{}' is undefined", name));
  return *cached;
}

void evaluator::assign(ast::symbol id, const val& v) {
  rt_.step(scope_->variables.size() / 16);
  for (auto& [known, old] : scope_->variables) {
    if (known == id) {
      old = v;
      return;
    }
  }
  rt_.memory(sizeof(scope_->variables[0]));
  scope_->variables.emplace_back(id, v);
}

void evaluator::assign(const ast::target& t, const val& v) {
  if (t.attribute) {
    const val ns = lookup(t.id);
    auto* node = ns.is(kind::instance) ? dynamic_cast<namespace_node*>(&ns.object()) : nullptr;
    if (node == nullptr) {
      throw template_failure{"template_runtime", "cannot assign to an attribute of what is no namespace"};
    }
    node->set(rt_, *t.attribute, v);
    return;
  }
  if (!t.unpack) return assign(t.id, v);
  const std::vector<val> items = elements(rt_, v);
  if (items.size() != t.parts.size()) {
    fail_type(fmt::format("cannot unpack: expected {} values, got {}", t.parts.size(), items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(t.parts[i], items[i]);
}

void evaluator::capture(scope_node* scope) {
  for (; scope != nullptr && !scope->captured; scope = scope->outer) scope->captured = true;
}

void evaluator::put(const val& v) {
  if (v.is_undefined() && !v.why().security) return;
  const text t = str_of(rt_, v).string();
  out_->add(t);
  if (out_->size() > rt_.limits().output_bytes) fail_limit("the chat template puts out too much text");
}

val evaluator::captured(const ast::body& body) {
  text_builder made(rt_);
  text_builder* const before = std::exchange(out_, &made);
  execute(body);
  out_ = before;
  return made.finish();
}

evaluator::flow evaluator::execute(const ast::body& body) {
  for (const auto& s : body) {
    const flow f = execute(*s);
    if (f != flow::normal) return f;
  }
  return flow::normal;
}

evaluator::flow evaluator::execute(const ast::statement& s) {
  rt_.step();
  rt_.check_stack();
  switch (s.kind) {
    case ast::statement_kind::text:
      put(val::of(text::whole(static_cast<const ast::text_statement&>(s).source)));
      return flow::normal;
    case ast::statement_kind::print:
      for (const auto& e : static_cast<const ast::print_statement&>(s).values) put(eval(*e));
      return flow::normal;
    case ast::statement_kind::branch:
      return branch(static_cast<const ast::branch_statement&>(s));
    case ast::statement_kind::loop:
      loop(static_cast<const ast::loop_statement&>(s));
      return flow::normal;
    case ast::statement_kind::set: {
      const auto& set = static_cast<const ast::set_statement&>(s);
      assign(set.variable, eval(*set.value));
      return flow::normal;
    }
    case ast::statement_kind::set_block:
    case ast::statement_kind::filter_block:
    case ast::statement_kind::scope:
      capture_block(static_cast<const ast::capture_statement&>(s));
      return flow::normal;
    case ast::statement_kind::macro:
      macro(static_cast<const ast::macro_statement&>(s));
      return flow::normal;
    case ast::statement_kind::call_block:
      call_block(static_cast<const ast::call_statement&>(s));
      return flow::normal;
    case ast::statement_kind::with:
      return with(static_cast<const ast::with_statement&>(s));
    case ast::statement_kind::block:
      block(static_cast<const ast::block_statement&>(s));
      return flow::normal;
    case ast::statement_kind::break_loop:
      return flow::broken;
    case ast::statement_kind::continue_loop:
      return flow::continued;
    case ast::statement_kind::load:
      fail_type("a chat template cannot load another template");
  }
  return flow::normal;
}

evaluator::flow evaluator::branch(const ast::branch_statement& s) {
  for (const auto& [test, body] : s.branches) {
    if (truth(eval(*test))) return execute(body);
  }
  return execute(s.otherwise);
}

void evaluator::loop(const ast::loop_statement& s) { run_loop(s, eval(*s.iterable), scope_, 0); }

void evaluator::run_loop(const ast::loop_statement& s, const val& given, scope_node* outer, int depth) {
  val over = given;
  if (s.filter) {
    cursor source(rt_, given);
    over = rt_.iterator([this, &s, outer, source](runtime&, val& out) mutable {
      while (source.next(out)) {
        const inner_scope scope(*this, outer);
        assign(s.variable, out);
        if (truth(eval(*s.filter))) return true;
      }
      return false;
    });
  }
  auto* context = rt_.make<loop_node>(rt_, over);
  context->owner = this;
  context->recursive = s.recursive ? &s : nullptr;
  context->home = outer;
  context->depth = depth;
  if (s.recursive) capture(outer);
  // Whether a round ran to its end: only that keeps the else branch from running.
  bool completed = false;
  for (val element; context->next(element);) {
    const inner_scope scope(*this, outer);
    assign(tree_.loop, val::of(context));
    assign(s.variable, element);
    const flow f = execute(s.content);
    if (f == flow::broken) break;
    completed = completed || f == flow::normal;
  }
  if (!completed && !s.otherwise.empty()) {
    const inner_scope scope(*this, outer);
    execute(s.otherwise);
  }
}

evaluator::flow evaluator::with(const ast::with_statement& s) {
  std::vector<val> values;
  values.reserve(s.bindings.size());
  for (const auto& [target, e] : s.bindings) values.push_back(eval(*e));
  const inner_scope scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(s.bindings[i].first, values[i]);
  return execute(s.content);
}

void evaluator::capture_block(const ast::capture_statement& s) {
  val made;
  {
    const inner_scope scope(*this, scope_);
    if (s.kind == ast::statement_kind::scope) {
      execute(s.content);
      return;
    }
    made = captured(s.content);
  }
  for (const ast::step& f : s.filters) made = apply(f, made);
  if (s.kind == ast::statement_kind::set_block) {
    assign(s.variable, made);
  } else {
    put(made);
  }
}

void evaluator::block(const ast::block_statement& s) {
  const inner_scope scope(*this, s.scoped ? scope_ : root_);
  execute(s.content);
}

void evaluator::call_block(const ast::call_statement& s) {
  const val caller = make_macro(s.caller);
  const auto& call = static_cast<const ast::postfix&>(*s.call);
  val v = eval(*call.base);
  for (std::size_t i = 0; i + 1 < call.steps.size(); ++i) v = apply(call.steps[i], v);
  put(apply_call(call.steps.back(), v, &caller));
}

void evaluator::macro(const ast::macro_statement& s) { assign(s.id, make_macro(s.macro)); }

}  // namespace kvern::chat
