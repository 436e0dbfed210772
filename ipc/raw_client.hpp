#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ipc/fake_service.hpp"
#include "ipc/log_capture.hpp"
#include "ipc/server.hpp"

namespace kvern::ipc {

/// A folder of a test's own, removed with all that is in it.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "kvern-ipc-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct response {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
  boost::json::value json() const { return boost::json::parse(body); }
  std::string code() const { return std::string(json().at("error").at("code").as_string()); }
};

/// A client that sends exactly the bytes it is told to. Reads give up after ten seconds.
class raw_client {
 public:
  explicit raw_client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;
  ~raw_client() { close(); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void half_close() const { ::shutdown(fd_, SHUT_WR); }

  /// Whether all of it was taken.
  bool send(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  bool request(const std::string& method, const std::string& target, const std::string& body = {},
               const std::string& headers = {}) const {
    return send(method + " " + target + " HTTP/1.1\r\nHost: x\r\n" + headers +
                (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body);
  }
  bool post(const std::string& target, const std::string& body) const { return request("POST", target, body); }

  /// Reads until `mark` is in what was read and not yet taken; takes everything up to its end. "" at the end.
  std::string until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = read_.find(mark)) == std::string::npos) {
      if (!more()) return {};
    }
    std::string taken = read_.substr(0, at + mark.size());
    read_.erase(0, at + mark.size());
    return taken;
  }
  /// All that comes until the server closes.
  std::string rest() {
    while (more()) {
    }
    return std::exchange(read_, {});
  }
  /// Whether the server closed (and not the time ran out).
  bool closed() {
    char c = 0;
    const ssize_t n = ::recv(fd_, &c, 1, MSG_PEEK);
    // A server that had not read everything resets.
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }

  response head() {
    response r;
    const std::string text = until("\r\n\r\n");
    if (text.size() < 12) return r;
    r.status = std::stoi(text.substr(9, 3));
    for (std::size_t at = text.find("\r\n") + 2; at + 2 < text.size();) {
      const std::size_t end = text.find("\r\n", at);
      const std::size_t colon = text.find(": ", at);
      if (colon < end) r.headers[text.substr(at, colon - at)] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return r;
  }
  /// A whole answer, chunked or not.
  response answer(bool head_only = false) {
    response r = head();
    if (r.headers.contains("Transfer-Encoding")) {
      r.body = chunks();
    } else if (r.headers.contains("Content-Length") && !head_only) {
      const std::size_t size = std::stoul(r.headers["Content-Length"]);
      while (read_.size() < size && more()) {
      }
      r.body = read_.substr(0, size);
      read_.erase(0, size);
    }
    return r;
  }
  /// The next chunk of a chunked body; "" after the last.
  std::string chunk() {
    const std::string size = until("\r\n");
    if (size.empty()) return {};
    const std::size_t n = std::stoul(size, nullptr, 16);
    while (read_.size() < n + 2 && more()) {
    }
    std::string data = read_.substr(0, n);
    read_.erase(0, n + 2);
    return data;
  }
  /// The chunks that are left, joined.
  std::string chunks() {
    std::string all;
    for (std::string piece; !(piece = chunk()).empty();) all += piece;
    return all;
  }

 private:
  bool more() {
    char buffer[65536];
    const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (n > 0) read_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

  int fd_;
  bool connected_ = false;
  std::string read_;
};

/// The data of the server-sent events in `text`.
inline std::vector<std::string> events_of(std::string_view text) {
  std::vector<std::string> events;
  while (text.starts_with("data: ")) {
    const auto end = text.find("\n\n");
    if (end == std::string_view::npos) break;
    events.emplace_back(text.substr(6, end - 6));
    text.remove_prefix(end + 2);
  }
  EXPECT_TRUE(text.empty()) << text;
  return events;
}

/// A server on a socket of its own with a fake service behind it.
class served : public ::testing::Test {
 protected:
  void start(server_options o = {}) {
    o.socket_path = folder_.file("s");
    auto s = server::start(std::move(o), service_);
    ASSERT_TRUE(s) << s.error().message;
    server_ = *std::move(s);
  }
  std::string path() const { return folder_.file("s"); }
  response get(const std::string& target) const {
    raw_client c(path());
    c.request("GET", target);
    return c.answer();
  }
  response post(const std::string& target, const std::string& body) const {
    raw_client c(path());
    c.post(target, body);
    return c.answer();
  }
  /// Sends a completion request and yields the call that it makes of the service.
  std::shared_ptr<fake_call> ask(const raw_client& c, const std::string& target, const std::string& body) const {
    c.post(target, body);
    auto call = service_->next_call();
    if (!call) throw std::runtime_error("the request did not reach the service");
    return call;
  }

  log_capture log_;
  scratch_folder folder_;
  std::shared_ptr<fake_service> service_ = std::make_shared<fake_service>();
  std::unique_ptr<server> server_;
};

inline const std::string chat_path = "/v1/chat/completions";
inline constexpr const char* chat_body = R"({"messages":[{"role":"user","content":"hi"}])";

}  // namespace kvern::ipc
