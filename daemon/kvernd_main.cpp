#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <span>

#include "daemon/config.hpp"
#include "daemon/loader.hpp"
#include "daemon/service_manager.hpp"
#include "daemon/socket_path.hpp"
#include "daemon/stop_signal.hpp"
#include "daemon/version.hpp"
#include "ipc/server.hpp"

namespace {

namespace daemon = kvern::daemon;
using namespace std::chrono_literals;

constexpr auto stop_limit = 4s;  // of the 5 s that SIGTERM may take
constexpr auto engine_stop_limit = 2s;
constexpr double stuck_after_seconds = 60;  // a worker with work that shows no life for so long is wedged

enum exit_code { clean = 0, other = 1, bad_configuration = 2, bad_model = 3, socket_taken = 4 };

exit_code exit_code_of(const kvern::error& why) {
  if (why.code == "socket_in_use") return socket_taken;
  static constexpr std::array settings_do_not_fit{"configuration",         "socket_path_invalid", "kv_memory_too_small",
                                                  "context_too_large",     "invalid_option",      "invalid_options",
                                                  "invalid_cache_options", "threads_unavailable"};
  if (std::ranges::find(settings_do_not_fit, why.code) != settings_do_not_fit.end()) return bad_configuration;
  if (why.code.starts_with("model_") || why.code == "out_of_memory") return bad_model;
  return other;
}

int give_up(const kvern::error& why) {
  spdlog::error("{} ({})", why.message, why.code);
  return exit_code_of(why);
}

void set_up_logging(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("kvernd");
  if (daemon::logs_to_journal()) {
    logger->set_pattern("%v");
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  }
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

/// As many descriptors as the machine's owner allows: each connection needs one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_stuck(const kvern::service_stats& now) {
  return !now.worker_alive || now.heartbeat_age_seconds > stuck_after_seconds;
}

/// Serves until a signal comes. The watchdog is fed only while the worker lives.
void serve_until_stopped(daemon::stop_signal& stop, const kvern::service& service) {
  const auto interval = daemon::watchdog_interval();
  if (!interval) {
    stop.wait();
    return;
  }
  do {
    if (!is_stuck(service.stats())) daemon::notify_alive();
  } while (!stop.wait_for(*interval));
}

int run(const daemon::config& c, daemon::stop_signal& stop) {
  auto sockets = daemon::handed_over_sockets();
  if (!sockets) return give_up(sockets.error());
  kvern::ipc::server_options server_options;
  server_options.listening = std::move(*sockets);
  server_options.socket_mode = c.socket_mode;
  server_options.socket_path = c.socket.empty() ? daemon::default_socket() : c.socket;
  if (server_options.listening.empty()) {
    if (const auto usable = daemon::check_socket_path(server_options.socket_path); !usable) {
      return give_up(usable.error());
    }
  }

  int percent = -1;
  auto loaded = daemon::load(c, [&percent](double share) {
    if (const int now = static_cast<int>(100 * share); now != percent) {
      percent = now;
      daemon::notify_loading(share);
    }
  });
  if (!loaded) return give_up(loaded.error());
  const auto model = loaded->model;
  if (c.check) {
    fmt::print("kvernd: the configuration and the model {} ({}, {}) can be used\n", model.id, model.architecture,
               model.file_type);
    return clean;
  }

  // Before the socket is bound, so that its file is removed whenever a signal comes.
  stop.from_now_on_stop_in_order();
  auto system = kvern::actors::system::start(std::move(*loaded));
  auto server = kvern::ipc::server::start(server_options, system);
  if (!server) return give_up(server.error());

  const auto memory = system->stats().backend;
  const auto where = server_options.listening.empty() ? server_options.socket_path : std::string("systemd's socket");
  spdlog::info("serving {} ({}, context {}) on {}: {} threads, {}, {} MiB of cache", model.id, model.file_type,
               model.context, where, system->stats().threads, memory.kernels,
               (memory.page_bytes * static_cast<std::uint64_t>(memory.pages)) >> 20);
  daemon::notify_ready(fmt::format("Serving {}", model.id));
  serve_until_stopped(stop, *system);

  spdlog::info("stopping");
  daemon::notify_stopping();
  system->shut_down(engine_stop_limit);
  (*server)->stop(stop_limit - engine_stop_limit);
  return clean;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  daemon::stop_signal stop;
  const auto read = daemon::read_config(std::span<const char* const>(argv + 1, static_cast<std::size_t>(argc - 1)));
  if (!read) {
    fmt::print(stderr, "kvernd: {}\n", read.error().message);
    return bad_configuration;
  }
  if (const auto* shown = std::get_if<daemon::early_exit>(&*read)) {
    fmt::print("{}", shown->text);
    return clean;
  }
  const auto& c = std::get<daemon::config>(*read);
  set_up_logging(c.log_level);
  raise_descriptor_limit();
  return run(c, stop);
}
