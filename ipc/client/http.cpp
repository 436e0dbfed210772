#include "ipc/client/http.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <limits>

namespace kvern::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr std::size_t max_reply_bytes = std::size_t{256} << 20;

std::string head(std::string_view method, std::string_view target, std::size_t body_size) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: kvern\r\nConnection: close\r\n", method, target);
  if (body_size > 0) text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body_size);
  return text + "\r\n";
}

bool is_token(std::string_view word) {
  return !word.empty() && word.find_first_of(" \r\n\t") == std::string_view::npos &&
         word.find('\0') == std::string_view::npos;
}

}  // namespace

void http::cancel() noexcept {
  cancelled_ = true;
  const int descriptor = descriptor_;
  if (descriptor >= 0) ::shutdown(descriptor, SHUT_RDWR);
}

result<reply> http::exchange(std::string_view method, std::string_view target, std::string_view body,
                             const std::function<void(std::string_view)>& on_body) {
  if (!is_token(method) || !is_token(target)) return fail("protocol", "a method or target holds a blank");
  if (path_.size() > sizeof(sockaddr_un::sun_path) - 1) {
    return fail("unreachable", fmt::format("the socket path {} is longer than {} bytes; use a shorter one", path_,
                                           sizeof(sockaddr_un::sun_path) - 1));
  }
  cancelled_ = false;
  asio::io_context context;
  asio::local::stream_protocol::socket socket(context);
  boost::system::error_code problem;
  socket.connect(asio::local::stream_protocol::endpoint(path_), problem);
  if (problem == boost::system::errc::permission_denied) {
    return fail("unreachable",
                fmt::format("you may not use the socket {}; ask for membership of the group that owns it", path_));
  }
  if (problem) {
    return fail("unreachable", fmt::format("no daemon answers on {} ({}); start kvernd, or name its socket with "
                                           "--socket or KVERN_SOCKET",
                                           path_, problem.message()));
  }
  descriptor_ = socket.native_handle();
  struct forget {
    std::atomic<int>& descriptor;
    ~forget() { descriptor = -1; }
  } forget_on_return{descriptor_};
  const auto broken = [&](const boost::system::error_code& why) -> std::unexpected<error> {
    if (cancelled_) return fail("cancelled", "the request was cancelled");
    return fail("unreachable", fmt::format("the daemon closed the connection ({})", why.message()));
  };

  // A cancellation that came before the descriptor was known shut nothing down.
  if (cancelled_) return broken({});
  asio::write(socket, std::array{asio::buffer(head(method, target, body.size())), asio::buffer(body)}, problem);
  // A daemon that refuses a request early may close before it has read the whole: its answer is still there.
  const bool sent = !problem;

  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(on_body ? std::numeric_limits<std::uint64_t>::max() : max_reply_bytes);
  const auto write_problem = problem;
  beast::http::read_header(socket, buffer, parser, problem);
  if (problem) return broken(sent ? problem : write_problem);

  reply answer{static_cast<int>(parser.get().result_int()), {}};
  const bool stream = on_body && answer.status == 200;
  while (!parser.is_done()) {
    beast::http::read_some(socket, buffer, parser, problem);
    if (problem) return broken(problem);
    if (!stream) continue;
    std::string piece = std::move(parser.get().body());
    parser.get().body().clear();
    if (!piece.empty()) on_body(piece);
  }
  if (cancelled_) return fail("cancelled", "the request was cancelled");
  answer.body = std::move(parser.get().body());
  return answer;
}

}  // namespace kvern::client
