#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/golden.hpp"

namespace kvern::client {

/// A daemon that takes one request and answers with given bytes, then closes; with no bytes it answers nothing, and
/// holds the connection until the client closes it.
class scripted_daemon {
 public:
  explicit scripted_daemon(std::string answer) : answer_(std::move(answer)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    thread_ = std::thread([this] { serve(); });
  }
  scripted_daemon(const scripted_daemon&) = delete;
  scripted_daemon& operator=(const scripted_daemon&) = delete;
  ~scripted_daemon() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string path() const { return (folder_.path() / "s").string(); }

  /// What the client sent; complete once the client has its answer.
  const std::string& request() const { return request_; }

  /// Returns when a whole request has come.
  void wait_for_request() const { asked_.wait(false); }

 private:
  bool whole() const {
    const auto head = request_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const auto length = request_.find("Content-Length: ");
    const auto body = length < head ? std::stoul(request_.substr(length + 16)) : 0;
    return request_.size() >= head + 4 + body;
  }

  void serve() {
    const int peer = ::accept(listener_, nullptr, nullptr);
    if (peer < 0) return;
    std::vector<char> buffer(1 << 16);
    while (!whole()) {
      const auto got = ::read(peer, buffer.data(), buffer.size());
      if (got <= 0) break;
      request_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    asked_ = true;
    asked_.notify_all();
    // One byte at a time, so that everything arrives in pieces.
    for (const char byte : answer_) {
      if (::send(peer, &byte, 1, MSG_NOSIGNAL) != 1) break;
    }
    while (answer_.empty() && ::read(peer, buffer.data(), buffer.size()) > 0) {
    }
    ::close(peer);
  }

  test::scratch_folder folder_;
  std::string answer_;
  std::string request_;
  std::atomic<bool> asked_{false};
  int listener_ = -1;
  std::thread thread_;
};

/// An answer of the daemon with a body of known length.
inline std::string http_answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace kvern::client
