#include "model/chat/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/chat/operators.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

/// Deepest nesting of containers: what walks them recurses.
constexpr std::uint32_t max_container_depth = 400;
constexpr std::size_t max_text = std::numeric_limits<std::uint32_t>::max() / 2;
/// Of the thread's stack, which is megabytes everywhere the engine runs.
constexpr std::ptrdiff_t max_stack = 3 << 20;
constexpr std::size_t small_dict = 12;

}  // namespace

void fail_type(std::string message) { throw template_failure{"template_type", std::move(message)}; }
void fail_undefined(std::string message) { throw template_failure{"template_undefined", std::move(message)}; }
void fail_limit(std::string message) { throw template_failure{"template_limit", std::move(message)}; }

void fail_runtime(std::string message) { throw template_failure{"template_runtime", std::move(message)}; }

void fail_use(const val& undefined) {
  const undefined_info& why = undefined.why();
  throw template_failure{why.security ? "template_security" : "template_undefined", why.what};
}

val val::of(list_node* l) {
  val v(l->as == flavour::list ? kind::list : l->as == flavour::tuple ? kind::tuple : kind::view);
  v.list_ = l;
  return v;
}

val object_node::call(runtime&, arguments&) { fail_type(fmt::format("'{}' object is not callable", type_name())); }

bool namespace_node::attribute(runtime& rt, std::string_view name, val& out) {
  rt.step(items.size() / 16);
  for (const auto& [key, value] : items) {
    if (key == name) {
      out = value;
      return true;
    }
  }
  return false;
}

void namespace_node::set(runtime& rt, std::string_view name, const val& value) {
  rt.step(1 + items.size() / 16);
  for (auto& [key, old] : items) {
    if (key == name) {
      old = value;
      return;
    }
  }
  rt.memory(sizeof(items[0]) + name.size());
  items.emplace_back(std::string(name), value);
}

const val* dict_node::find(std::string_view key) const {
  const auto same = [&](const val& k) { return k.is_string() && k.view() == key; };
  const std::size_t at = position(items.size() <= small_dict ? 0 : hash_of(key), same);
  return at == items.size() ? nullptr : &items[at].second;
}

const val* dict_node::find(runtime& rt, const val& key) const {
  if (key.is_string()) {
    rt.scan(key.view().size());
    return find(key.view());
  }
  const auto same = [&](const val& k) { return equal(rt, k, key); };
  const std::uint64_t hash = hash_of(rt, key);
  const std::size_t at = position(hash, same);
  return at == items.size() ? nullptr : &items[at].second;
}

std::size_t dict_node::position(std::uint64_t hash, const std::function<bool(const val&)>& same) const {
  if (index_.empty()) {
    std::size_t i = 0;
    while (i < items.size() && !same(items[i].first)) ++i;
    return i;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (same(items[it->second].first)) return it->second;
  }
  return items.size();
}

runtime::runtime(const render_limits& limits, std::int64_t now)
    : limits_(limits),
      now_(now),
      steps_left_(limits.steps),
      memory_left_(limits.memory_bytes),
      stack_base_(static_cast<const char*>(__builtin_frame_address(0))) {}

void runtime::out_of_steps() { fail_limit("the chat template takes too many steps"); }
void runtime::out_of_memory() { fail_limit("the chat template takes too much memory"); }

void runtime::enter() {
  if (depth_ >= limits_.depth) {
    throw template_failure{"template_recursion", "the chat template nests calls or values too deep"};
  }
  check_stack();
  ++depth_;
}

void runtime::check_stack() const {
  const std::ptrdiff_t used = stack_base_ - static_cast<const char*>(__builtin_frame_address(0));
  if (used > max_stack) {
    throw template_failure{"template_recursion", "the chat template nests calls and expressions too deep"};
  }
}

text_store& runtime::store() {
  memory(sizeof(text_store) + sizeof(void*));
  stores_.push_back(std::make_unique<text_store>());
  return *stores_.back();
}

val runtime::string(std::string bytes, bool trusted) {
  if (bytes.size() > max_text) fail_limit("a string of the chat template is too long");
  memory(sizeof(text_store) + bytes.size());
  stores_.push_back(std::make_unique<text_store>(std::move(bytes), trusted));
  return val::of(text::whole(*stores_.back()));
}

val runtime::string_view(std::string_view bytes, bool trusted) {
  if (bytes.size() > max_text) fail_limit("a string given to the chat template is too long");
  memory(sizeof(text_store));
  stores_.push_back(std::make_unique<text_store>(text_store::view_of(bytes, trusted)));
  return val::of(text::whole(*stores_.back()));
}

std::uint32_t runtime::depth_of(const val& v) const {
  if (v.is_listed()) return v.list().depth;
  return v.is(kind::dict) ? v.dict().depth : 0;
}

val runtime::list(std::vector<val> items, flavour as) {
  memory(items.size() * sizeof(val));
  step(items.size() / 8);
  auto* l = make<list_node>();
  l->as = as;
  for (const val& v : items) l->depth = std::max(l->depth, 1 + depth_of(v));
  if (l->depth > max_container_depth) {
    throw template_failure{"template_recursion", "the chat template nests lists too deep"};
  }
  l->items = std::move(items);
  return val::of(l);
}

val runtime::dict(std::vector<std::pair<val, val>> items) {
  auto* d = make<dict_node>();
  d->items.reserve(items.size());
  for (const auto& [k, v] : items) insert(*d, k, v);
  return val::of(d);
}

void runtime::insert(dict_node& d, const val& key, const val& value) {
  step();
  const std::uint64_t hash = hash_of(*this, key);
  const auto same = [&](const val& k) { return equal(*this, k, key); };
  d.depth = std::max(d.depth, 1 + std::max(depth_of(value), depth_of(key)));
  if (d.depth > max_container_depth) {
    throw template_failure{"template_recursion", "the chat template nests dicts too deep"};
  }
  if (const std::size_t at = d.position(hash, same); at < d.items.size()) {
    d.items[at].second = value;
    return;
  }
  memory(sizeof(d.items[0]) + 48);
  d.items.emplace_back(key, value);
  if (d.items.size() == small_dict + 1) {
    for (std::size_t i = 0; i < d.items.size(); ++i) {
      d.index_.emplace(hash_of(*this, d.items[i].first), static_cast<std::uint32_t>(i));
    }
  } else if (d.items.size() > small_dict) {
    d.index_.emplace(hash, static_cast<std::uint32_t>(d.items.size() - 1));
  }
}

val runtime::iterator(std::function<bool(runtime&, val&)> pull) {
  memory(64);
  auto* it = make<iterator_node>();
  it->pull = std::move(pull);
  return val::of(it);
}

val runtime::undefined(std::string what, bool security) {
  struct info_node : node {
    undefined_info info;
  };
  memory(what.size());
  auto* n = make<info_node>();
  n->info = {std::move(what), security};
  return val::undefined(&n->info);
}

val runtime::function(std::string_view name, function_node::pointer run, const val& self) {
  auto* f = make<function_node>();
  f->name = std::string(name);
  f->run = run;
  f->self = self;
  return val::of(f);
}

val runtime::from(const value& v, int depth) {
  if (depth > static_cast<int>(max_container_depth) - 2) {
    throw template_failure{"template_recursion", "the data given to the chat template nests too deep"};
  }
  if (v.is_null()) return val::none();
  if (const bool* b = v.as_bool()) return val::of(*b);
  if (const std::int64_t* i = v.as_int()) return val::of(static_cast<wide>(*i));
  if (const double* d = v.as_double()) return val::of(*d);
  if (const std::string* s = v.as_string()) return string_view(*s, v.is_trusted());
  if (const array* a = v.as_array()) {
    std::vector<val> items;
    items.reserve(a->size());
    for (const value& item : *a) items.push_back(from(item, depth + 1));
    return list(std::move(items));
  }
  auto* d = make<dict_node>();
  for (const auto& [key, item] : *v.as_object()) insert(*d, string_view(key), from(item, depth + 1));
  return val::of(d);
}

void text_builder::grow(std::size_t bytes) {
  if (bytes > max_text - size()) fail_limit("a string of the chat template is too long");
  rt_.memory(bytes);
}

void text_builder::add(std::string_view bytes, bool trusted) {
  grow(bytes.size() + 1);
  store_->append(bytes, trusted);
}

void text_builder::add(const text& t) {
  t.each_run([&](std::string_view bytes, bool trusted) { add(bytes, trusted); });
}

void text_builder::add_repeated(const text& t, std::uint64_t count) {
  if (t.empty() || count == 0) return;
  if (count > rt_.memory_left() / t.size()) fail_limit("a repeated string takes too much memory");
  std::size_t runs = 0;
  t.each_run([&](std::string_view, bool) { ++runs; });
  const std::uint64_t per_chunk = runs > 1 ? 1 : std::min<std::uint64_t>(count, 1 + 65536 / t.size());
  std::string chunk;
  for (std::uint64_t i = 0; i < per_chunk && runs == 1; ++i) chunk += t.view();
  for (; count > 0 && count >= per_chunk; count -= per_chunk) {
    if (runs == 1) {
      add(chunk, t.trusted_at(0));
    } else {
      add(t);
    }
  }
  if (count > 0) add(std::string_view(chunk).substr(0, t.size() * count), t.trusted_at(0));
}

val text_builder::finish(bool markup) { return val::of(text::whole(*store_), markup); }

text joined(runtime& rt, const text& a, const text& b) {
  if (b.empty()) return a;
  if (a.empty()) return b;
  text_store* store = a.store();
  const bool at_end = store->can_grow() && a.offset() + a.size() == store->bytes().size();
  if (!at_end) {
    text_builder out(rt);
    out.raw().reserve(a.size() + b.size());
    out.add(a);
    out.add(b);
    return out.finish().string();
  }
  if (b.size() > max_text - store->bytes().size()) fail_limit("a string of the chat template is too long");
  rt.memory(b.size() + sizeof(text_store::run));
  rt.scan(b.size());
  if (b.store() == store) {
    store->append_own(b.offset(), b.size());
  } else {
    b.each_run([&](std::string_view bytes, bool trusted) { store->append(bytes, trusted); });
  }
  return {store, a.offset(), a.size() + b.size()};
}

cursor::cursor(runtime& rt, const val& v) : rt_(rt), over_(v) {
  if (v.is_undefined() && v.why().security) fail_use(v);
  if (!iterable(v)) fail_type(fmt::format("'{}' object is not iterable", type_name(v)));
}

bool cursor::next(val& out) {
  rt_.step();
  switch (over_.type()) {
    case kind::list:
    case kind::tuple:
    case kind::view:
      if (at_ >= over_.list().items.size()) return false;
      out = over_.list().items[at_++];
      return true;
    case kind::dict:
      if (at_ >= over_.dict().items.size()) return false;
      out = over_.dict().items[at_++].first;
      return true;
    case kind::range:
      if (at_ >= over_.range().count) return false;
      out = over_.range().at(at_++);
      return true;
    case kind::string: {
      const text& t = over_.string();
      if (at_ >= t.size()) return false;
      const std::size_t n = unicode::decode(t.view(), at_).size;
      out = val::of(t.sub(at_, n));
      at_ += n;
      return true;
    }
    case kind::iterator:
      // A chain of lazy filters is as deep as it is long.
      rt_.check_stack();
      return over_.iterator().pull(rt_, out);
    default:
      return false;
  }
}

bool iterable(const val& v) {
  switch (v.type()) {
    case kind::undefined:
    case kind::string:
    case kind::list:
    case kind::tuple:
    case kind::dict:
    case kind::view:
    case kind::range:
    case kind::iterator:
      return true;
    default:
      return false;
  }
}

std::vector<val> elements(runtime& rt, const val& v) {
  if (v.is_listed()) {
    rt.step(v.list().items.size() / 8);
    return v.list().items;
  }
  std::vector<val> out;
  cursor c(rt, v);
  for (val item; c.next(item);) {
    rt.memory(sizeof(val));
    out.push_back(item);
  }
  return out;
}

std::string_view type_name(const val& v) {
  switch (v.type()) {
    case kind::undefined:
      return "Undefined";
    case kind::none:
      return "NoneType";
    case kind::boolean:
      return "bool";
    case kind::integer:
      return "int";
    case kind::real:
      return "float";
    case kind::string:
      return v.markup() ? "Markup" : "str";
    case kind::list:
      return "list";
    case kind::tuple:
      return "tuple";
    case kind::dict:
      return "dict";
    case kind::view:
      return v.list().as == flavour::keys ? "dict_keys" : v.list().as == flavour::values ? "dict_values" : "dict_items";
    case kind::range:
      return "range";
    case kind::iterator:
      return "generator";
    case kind::instance:
      return v.object().type_name();
  }
  return "object";
}

}  // namespace kvern::chat
