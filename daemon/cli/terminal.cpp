#include "daemon/cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace kvern::cli {
namespace {

int columns_of(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool is_control(unsigned char byte) { return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f; }

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, the eight-bit control characters, are C2 80 to C2 9F.
    const bool wide_control = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (wide_control) ++i;
    if (wide_control || is_control(byte)) {
      out += "\xef\xbf\xbd";
    } else {
      out += static_cast<char>(byte);
    }
  }
  return out;
}

std::string progress_line(std::int64_t processed, std::int64_t total, int columns) {
  total = std::max<std::int64_t>(total, 1);
  processed = std::clamp<std::int64_t>(processed, 0, total);
  const auto numbers = fmt::format(" {:3}% {}/{}", 100 * processed / total, processed, total);
  const auto width = std::min<std::int64_t>(40, columns - 10 - static_cast<std::int64_t>(numbers.size()));
  if (width < 4) return "prompt" + numbers;
  const auto filled = static_cast<std::size_t>(width * processed / total);
  return "prompt [" + std::string(filled, '#') + std::string(static_cast<std::size_t>(width) - filled, '-') + "]" +
         numbers;
}

progress_bar::progress_bar(std::FILE* out) : out_(out), terminal_(is_terminal(out)) {}

void progress_bar::show(std::int64_t processed, std::int64_t total) {
  if (!terminal_) return;
  fmt::print(out_, "\r\x1b[K{}", progress_line(processed, total, columns_of(out_)));
  std::fflush(out_);
  shown_ = true;
}

void progress_bar::clear() {
  if (!shown_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
  shown_ = false;
}

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

std::string read_piped_input() {
  struct stat what {};
  if (fstat(STDIN_FILENO, &what) != 0 || !(S_ISFIFO(what.st_mode) || S_ISREG(what.st_mode))) return {};
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const auto got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace kvern::cli
