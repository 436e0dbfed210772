#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/chat/chat_template.hpp"
#include "model/chat/text.hpp"
#include "model/chat/value.hpp"

namespace kvern::chat {

/// Why a rendering ends. Thrown inside the engine and caught where it meets its callers.
struct template_failure {
  const char* code;
  std::string message;
};

[[noreturn]] void fail_type(std::string message);
[[noreturn]] void fail_undefined(std::string message);
[[noreturn]] void fail_limit(std::string message);
[[noreturn]] void fail_runtime(std::string message);

/// An integer of the template language. Overflow is `template_limit`.
using wide = __int128;

class runtime;
struct arguments;
class val;

/// Base of what a rendering makes on its heap. All of it lives until the rendering ends.
struct node {
  virtual ~node() = default;
};

enum class kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  view,
  range,
  iterator,
  instance
};

struct undefined_info {
  std::string what;       ///< e.g. "'x' is undefined"; names from the template's source only
  bool security = false;  ///< hidden by the sandbox: its use is `template_security`
};

struct list_node;
struct dict_node;
struct range_node;
struct iterator_node;
struct object_node;

/// A value while a template runs. Small, trivially copied; what it points to belongs to the runtime, the template or
/// the context.
class val {
 public:
  val() : none_(0) {}
  static val undefined(const undefined_info* info) {
    val v(kind::undefined);
    v.undefined_ = info;
    return v;
  }
  static val none() { return val(kind::none); }
  static val of(bool b) {
    val v(kind::boolean);
    v.boolean_ = b;
    return v;
  }
  static val of(wide i) {
    val v(kind::integer);
    v.integer_ = i;
    return v;
  }
  static val of(std::size_t i) { return of(static_cast<wide>(i)); }
  static val of(double d) {
    val v(kind::real);
    v.real_ = d;
    return v;
  }
  static val of(text t, bool markup = false) {
    val v(kind::string);
    v.text_ = t;
    v.markup_ = markup;
    return v;
  }
  static val of(list_node* l);
  static val of(dict_node* d) {
    val v(kind::dict);
    v.dict_ = d;
    return v;
  }
  static val of(range_node* r) {
    val v(kind::range);
    v.range_ = r;
    return v;
  }
  static val of(iterator_node* i) {
    val v(kind::iterator);
    v.iterator_ = i;
    return v;
  }
  static val of(object_node* o) {
    val v(kind::instance);
    v.object_ = o;
    return v;
  }

  kind type() const { return kind_; }
  bool is(kind k) const { return kind_ == k; }
  bool is_undefined() const { return kind_ == kind::undefined; }
  bool is_string() const { return kind_ == kind::string; }
  /// integer or boolean
  bool is_integral() const { return kind_ == kind::integer || kind_ == kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == kind::real; }
  /// list, tuple or dict view: `list()` is its elements.
  bool is_listed() const { return kind_ == kind::list || kind_ == kind::tuple || kind_ == kind::view; }

  bool boolean() const { return boolean_; }
  wide integer() const { return kind_ == kind::boolean ? static_cast<wide>(boolean_) : integer_; }
  double real() const { return real_; }
  double as_real() const { return kind_ == kind::real ? real_ : static_cast<double>(integer()); }
  const text& string() const { return text_; }
  std::string_view view() const { return text_.view(); }
  /// A string that `escape` or `safe` made: adding to it escapes the other.
  bool markup() const { return markup_; }
  list_node& list() const { return *list_; }
  dict_node& dict() const { return *dict_; }
  range_node& range() const { return *range_; }
  iterator_node& iterator() const { return *iterator_; }
  object_node& object() const { return *object_; }
  const undefined_info& why() const { return *undefined_; }
  const void* address() const { return list_; }

 private:
  explicit val(kind k) : kind_(k), none_(0) {}
  kind kind_ = kind::none;
  bool markup_ = false;
  union {
    wide none_;
    bool boolean_;
    wide integer_;
    double real_;
    text text_;
    list_node* list_;
    dict_node* dict_;
    range_node* range_;
    iterator_node* iterator_;
    object_node* object_;
    const undefined_info* undefined_;
  };
};

enum class flavour : std::uint8_t { list, tuple, keys, values, items };

/// list, tuple and the views of a dict. `depth` is 1 for one that holds no containers.
struct list_node : node {
  flavour as = flavour::list;
  bool group = false;  ///< a tuple of `groupby`: has the attributes grouper and list
  std::uint32_t depth = 1;
  std::vector<val> items;
};

/// Keys in order of insertion.
struct dict_node : node {
  std::uint32_t depth = 1;
  std::vector<std::pair<val, val>> items;
  /// Null when absent. `key` must be hashable.
  const val* find(runtime& rt, const val& key) const;
  const val* find(std::string_view key) const;

 private:
  friend class runtime;
  std::size_t position(std::uint64_t hash, const std::function<bool(const val&)>& same) const;
  /// Hash to position, kept once the dict is not small.
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_;
};

struct range_node : node {
  wide start = 0, stop = 0, step = 1;  ///< each within 64 bits when the template made the range
  std::size_t count = 0;
  val at(std::size_t i) const { return val::of(start + step * static_cast<wide>(i)); }
};

/// A generator: gives each element once.
struct iterator_node : node {
  std::function<bool(runtime&, val&)> pull;
};

/// Positional and keyword arguments of a call.
struct arguments {
  std::vector<val> positional;
  std::vector<std::pair<std::string, val>> named;
};

/// Functions, macros, loops, namespaces and the like.
struct object_node : node {
  /// Name of its type, for messages and printing.
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual val call(runtime& rt, arguments& args);
  /// Sets `out` and says true when there is such an attribute.
  virtual bool attribute(runtime&, std::string_view, val&) { return false; }
};

/// A function of the engine's own, or a method bound to `self`.
struct function_node : object_node {
  using pointer = val (*)(runtime&, const val& self, arguments&);
  std::string name;
  val self;
  pointer run = nullptr;
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  val call(runtime& rt, arguments& args) override { return run(rt, self, args); }
};

struct namespace_node : object_node {
  std::vector<std::pair<std::string, val>> items;
  std::string_view type_name() const override { return "Namespace"; }
  bool attribute(runtime&, std::string_view name, val& out) override;
  void set(runtime& rt, std::string_view name, const val& value);
};

/// The heap and the budget of one rendering. Not thread-safe.
class runtime {
 public:
  runtime(const render_limits& limits, std::int64_t now);

  const render_limits& limits() const { return limits_; }
  std::int64_t now() const { return now_; }

  /// Counts work. Errors: `template_limit`.
  void step(std::uint64_t n = 1) {
    if (n > steps_left_) out_of_steps();
    steps_left_ -= n;
  }
  /// Counts looking at `bytes` of text.
  void scan(std::size_t bytes) { step(1 + bytes / 256); }
  /// Counts memory, which is never given back within a rendering.
  void memory(std::uint64_t bytes) {
    if (bytes > memory_left_) out_of_memory();
    memory_left_ -= bytes;
  }
  std::uint64_t memory_left() const { return memory_left_; }

  template <class T, class... A>
  T* make(A&&... a) {
    memory(sizeof(T) + 2 * sizeof(void*));
    auto owned = std::make_unique<T>(std::forward<A>(a)...);
    T* raw = owned.get();
    heap_.push_back(std::move(owned));
    return raw;
  }

  val string(std::string bytes, bool trusted = false);
  /// Bytes that outlive the rendering.
  val string_view(std::string_view bytes, bool trusted = false);
  /// A store that grows; the runtime's.
  text_store& store();
  val list(std::vector<val> items, flavour as = flavour::list);
  val tuple(std::vector<val> items) { return list(std::move(items), flavour::tuple); }
  val dict(std::vector<std::pair<val, val>> items);
  /// Sets or replaces `key` of a dict that is being made.
  void insert(dict_node& d, const val& key, const val& value);
  val iterator(std::function<bool(runtime&, val&)> pull);
  val undefined(std::string what, bool security = false);
  val function(std::string_view name, function_node::pointer run, const val& self = {});
  /// The context's data as values of the language. Errors: `template_limit` when nested too deep.
  val from(const value& v) { return from(v, 0); }

  /// Counts nesting of calls and printed values while it lives. Errors: `template_recursion`.
  class nesting {
   public:
    explicit nesting(runtime& rt) : rt_(rt) { rt_.enter(); }
    ~nesting() { --rt_.depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;

   private:
    runtime& rt_;
  };
  /// Errors: `template_recursion` when the thread's stack has been used too far since the rendering began.
  void check_stack() const;

 private:
  [[noreturn]] static void out_of_steps();
  [[noreturn]] static void out_of_memory();
  void enter();
  val from(const value& v, int depth);
  std::uint32_t depth_of(const val& v) const;

  render_limits limits_;
  std::int64_t now_;
  std::uint64_t steps_left_;
  std::uint64_t memory_left_;
  int depth_ = 0;
  const char* stack_base_;
  std::vector<std::unique_ptr<node>> heap_;
  std::vector<std::unique_ptr<text_store>> stores_;
};

/// Builds a string run by run, counting its memory.
class text_builder {
 public:
  explicit text_builder(runtime& rt) : rt_(rt), store_(&rt.store()) {}
  void add(std::string_view bytes, bool trusted);
  void add(const text& t);
  /// Errors: `template_limit` before anything is made.
  void add_repeated(const text& t, std::uint64_t count);
  std::size_t size() const { return store_->bytes().size(); }
  val finish(bool markup = false);
  text_store& raw() { return *store_; }

 private:
  void grow(std::size_t bytes);
  runtime& rt_;
  text_store* store_;
};

/// `a` followed by `b`. Amortised linear when a string grows at its end.
text joined(runtime& rt, const text& a, const text& b);

/// Steps through an iterable without copying it.
class cursor {
 public:
  /// Errors: `template_type` when `v` cannot be iterated.
  cursor(runtime& rt, const val& v);
  bool next(val& out);

 private:
  runtime& rt_;
  val over_;
  std::size_t at_ = 0;
};

/// Whether `cursor` accepts it.
bool iterable(const val& v);

/// All elements. Errors as `cursor`.
std::vector<val> elements(runtime& rt, const val& v);

/// Python's name of its type: "str", "NoneType".
std::string_view type_name(const val& v);

/// Throws for an undefined value that is used as if it were there.
[[noreturn]] void fail_use(const val& undefined);

}  // namespace kvern::chat
