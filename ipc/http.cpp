#include "ipc/http.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace kvern::ipc {

std::string_view path_of(std::string_view target) { return target.substr(0, target.find_first_of("?#")); }

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* begin = text.data() + i + 1;
      const auto [end, ec] = std::from_chars(begin, begin + 2, byte, 16);
      if (ec == std::errc{} && end == begin + 2) {
        out += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::string_view reason_phrase(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 14> phrases{{{200, "OK"},
                                                                             {201, "Created"},
                                                                             {400, "Bad Request"},
                                                                             {403, "Forbidden"},
                                                                             {404, "Not Found"},
                                                                             {405, "Method Not Allowed"},
                                                                             {408, "Request Timeout"},
                                                                             {409, "Conflict"},
                                                                             {413, "Content Too Large"},
                                                                             {417, "Expectation Failed"},
                                                                             {429, "Too Many Requests"},
                                                                             {431, "Request Header Fields Too Large"},
                                                                             {500, "Internal Server Error"},
                                                                             {503, "Service Unavailable"}}};
  for (const auto& [code, phrase] : phrases) {
    if (code == status) return phrase;
  }
  return "Unknown";
}

std::string reply_head(const http_reply& reply, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", reply.status,
                                 reason_phrase(reply.status), reply.content_type, reply.body.size());
  for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string stream_head(bool chunked, bool keep_alive) {
  std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n";
  if (chunked) head += "Transfer-Encoding: chunked\r\n";
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk(std::string_view data) {
  if (data.empty()) return {};
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace kvern::ipc
