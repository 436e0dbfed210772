#include "ipc/request_log.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "ipc/errors.hpp"
#include "ipc/http.hpp"

namespace kvern::ipc {
namespace {

constexpr std::size_t longest_path = 128;

/// Whether something broke inside, and neither the client, nor load, nor a stop is the reason.
bool is_unexpected(const error& why) { return status_of(why.code) == 500 || why.code == "worker_failed"; }

}  // namespace

std::string line_of(const finished_request& r) {
  std::string line =
      fmt::format("POST {} uid={} session={} prompt={} cached={} completion={} {}={} ms={:.1f}", path_of(r.kind),
                  r.user, r.session ? "yes" : "no", r.tokens.prompt, r.tokens.cached, r.tokens.completion,
                  r.failure ? "error" : "finish", r.failure ? r.failure->code : r.finish, r.milliseconds);
  if (r.failure && is_unexpected(*r.failure)) line += fmt::format(": {:?}", r.failure->message);
  return line;
}

void write_log(const finished_request& r) {
  const bool warns = r.failure && is_unexpected(*r.failure);
  spdlog::log(warns ? spdlog::level::warn : spdlog::level::info, "{}", line_of(r));
}

void write_log(std::string_view method, std::string_view target, uid_t user, int status, double milliseconds) {
  spdlog::log(status == 500 ? spdlog::level::warn : spdlog::level::debug, "{} {:?} uid={} status={} ms={:.1f}", method,
              path_of(target).substr(0, longest_path), user, status, milliseconds);
}

}  // namespace kvern::ipc
