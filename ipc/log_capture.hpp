#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kvern::ipc {

/// Takes the place of spdlog's default logger while it lives. Lines are "level text". To be made before, and to go
/// after, all threads that log.
class log_capture {
 public:
  log_capture() : lines_(std::make_shared<sink>()), before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", lines_);
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  log_capture(const log_capture&) = delete;
  log_capture& operator=(const log_capture&) = delete;
  ~log_capture() { spdlog::set_default_logger(before_); }

  /// The first line that holds `part`, or "" when none came within ten seconds.
  std::string wait_for(std::string_view part) const { return lines_->wait_for(part); }
  std::vector<std::string> all() const { return lines_->all(); }

 private:
  class sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string wait_for(std::string_view part) {
      std::unique_lock lock(mutex_);
      std::string found;
      came_.wait_for(lock, std::chrono::seconds(10), [&] {
        for (const std::string& line : lines_) {
          if (line.find(part) != std::string::npos) found = line;
          if (!found.empty()) return true;
        }
        return false;
      });
      return found;
    }
    std::vector<std::string> all() {
      const std::lock_guard lock(mutex_);
      return lines_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const auto level = spdlog::level::to_string_view(message.level);
      lines_.emplace_back(std::string(level.data(), level.size()) + " " +
                          std::string(message.payload.data(), message.payload.size()));
      came_.notify_all();
    }
    void flush_() override {}

    std::condition_variable came_;
    std::vector<std::string> lines_;
  };

  std::shared_ptr<sink> lines_;
  std::shared_ptr<spdlog::logger> before_;
};

}  // namespace kvern::ipc
