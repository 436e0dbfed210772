#include "ipc/overflow_fields.hpp"

namespace kvern::ipc {

std::optional<gpu::overflow_policy> read_overflow(fields& body) {
  using enum gpu::overflow_policy;
  const auto name = body.string("overflow");
  if (!name) return std::nullopt;
  for (const auto policy : {error, stop, rotate}) {
    if (*name == to_string(policy)) return policy;
  }
  body.fail("overflow", "must be \"error\", \"stop\" or \"rotate\"");
  return std::nullopt;
}

std::optional<std::int64_t> read_keep(fields& body, std::optional<gpu::overflow_policy> overflow, bool decided) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const auto keep = body.integer("keep", 0, most);
  const bool may_rotate = overflow ? *overflow == gpu::overflow_policy::rotate : !decided;
  if (keep.value_or(0) > 0 && !may_rotate)
    body.fail("keep", "says what stays when lines are forgotten: it needs overflow \"rotate\"");
  return keep;
}

}  // namespace kvern::ipc
