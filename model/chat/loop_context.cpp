#include "model/chat/loop_context.hpp"

#include "model/chat/arguments.hpp"
#include "model/chat/operators.hpp"

namespace kvern::chat {

bool loop_node::next(val& out) {
  if (ahead_at_ < ahead_.size()) {
    out = ahead_[ahead_at_++];
  } else if (!source.next(out)) {
    return false;
  }
  previous_ = current_;
  current_ = out;
  ++given_;
  return true;
}

bool loop_node::peek(val& out) {
  if (ahead_at_ >= ahead_.size()) {
    if (!source.next(out)) return false;
    ahead_.assign(1, out);
    ahead_at_ = 0;
  }
  out = ahead_[ahead_at_];
  return true;
}

std::size_t loop_node::length(runtime& rt) {
  for (val v; source.next(v);) {
    rt.memory(sizeof(val));
    ahead_.push_back(v);
  }
  return given_ + ahead_.size() - ahead_at_;
}

val loop_node::call(runtime& rt, arguments& args) {
  if (recursive == nullptr) fail_type("the loop is not marked recursive");
  const bound b("loop", args, {"iterable"}, 1);
  const runtime::nesting level(rt);
  text_builder made(rt);
  text_builder* const before = std::exchange(owner->out_, &made);
  owner->run_loop(*recursive, b[0], home, depth + 1);
  owner->out_ = before;
  return made.finish();
}

bool loop_node::attribute(runtime& rt, std::string_view name, val& out) {
  val v;
  if (name == "index")
    out = val::of(given_);
  else if (name == "index0")
    out = val::of(static_cast<wide>(given_) - 1);
  else if (name == "first")
    out = val::of(given_ == 1);
  else if (name == "last")
    out = val::of(!peek(v));
  else if (name == "length")
    out = val::of(length(rt));
  else if (name == "revindex")
    out = val::of(length(rt) - given_ + 1);
  else if (name == "revindex0")
    out = val::of(length(rt) - given_);
  else if (name == "depth")
    out = val::of(static_cast<wide>(depth) + 1);
  else if (name == "depth0")
    out = val::of(static_cast<wide>(depth));
  else if (name == "previtem")
    out = previous_ ? *previous_ : rt.undefined("there is no previous item");
  else if (name == "nextitem")
    out = peek(v) ? v : rt.undefined("there is no next item");
  else if (name == "cycle")
    out = rt.function("cycle", cycle, val::of(this));
  else if (name == "changed")
    out = rt.function("changed", changed, val::of(this));
  else
    return false;
  return true;
}

val loop_node::cycle(runtime&, const val& self, arguments& args) {
  const auto& loop = static_cast<loop_node&>(self.object());
  if (args.positional.empty() || !args.named.empty()) fail_type("no items for cycling given");
  return args.positional[(loop.given_ - 1) % args.positional.size()];
}

val loop_node::changed(runtime& rt, const val& self, arguments& args) {
  auto& loop = static_cast<loop_node&>(self.object());
  bool same = loop.changed_ && loop.changed_->size() == args.positional.size();
  for (std::size_t i = 0; same && i < args.positional.size(); ++i) {
    same = equal(rt, (*loop.changed_)[i], args.positional[i]);
  }
  loop.changed_ = args.positional;
  return val::of(!same);
}

}  // namespace kvern::chat
