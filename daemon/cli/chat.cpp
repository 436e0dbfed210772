#include <editline/readline.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/utf8.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/interrupt.hpp"
#include "daemon/cli/terminal.hpp"

namespace kvern::cli {
namespace {

constexpr int kept_lines = 1000;

/// Lines typed in earlier conversations; a private file, since it holds what the user wrote. Empty: none is kept.
std::string history_file() {
  namespace fs = std::filesystem;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state != nullptr && *state != '\0') {
    folder = state;
  } else if (home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".local/state";
  } else {
    return {};
  }
  std::error_code problem;
  fs::create_directories(folder / "kvern", problem);
  return problem ? std::string{} : (folder / "kvern/chat_history").string();
}

/// Reads standard input for libedit: a code point at a time, whatever the locale, since the daemon speaks UTF-8. Ctrl-C
/// ends the line.
int next_character(std::FILE*) {
  static std::string bytes;  // of a character that is not whole, or that did not belong to the one before
  for (;;) {
    if (!bytes.empty()) {
      const auto front = utf8_next(bytes);
      const bool valid = front.state == utf8_state::valid;
      if (front.state != utf8_state::incomplete) {
        const auto code = valid ? utf8_code_point(bytes.substr(0, front.length)) : U'\uFFFD';
        bytes.erase(0, front.length);
        return static_cast<int>(code);
      }
    }
    char byte = 0;
    const auto got = read(STDIN_FILENO, &byte, 1);
    if (got == 1) {
      bytes += byte;
    } else if (got < 0 && errno == EINTR) {
      if (interrupt_watch::interrupted()) return '\n';
    } else {
      return EOF;
    }
  }
}

class line_editor {
 public:
  line_editor() : file_(history_file()) {
    // libedit writes characters in the locale's encoding, and knows their width by it.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    rl_getc_function = next_character;
    using_history();
    stifle_history(kept_lines);
    if (!file_.empty()) read_history(file_.c_str());
  }
  ~line_editor() {
    if (file_.empty()) return;
    const mode_t before = umask(077);
    write_history(file_.c_str());
    umask(before);
  }
  line_editor(const line_editor&) = delete;
  line_editor& operator=(const line_editor&) = delete;

  /// The next line; nullopt at the end of the input. Ctrl-C begins the line anew.
  std::optional<std::string> next() {
    for (;;) {
      const interrupt_watch watch;
      const std::unique_ptr<char, void (*)(void*)> line(readline("> "), std::free);
      if (interrupt_watch::interrupted()) continue;
      if (!line) return std::nullopt;
      if (*line != '\0') add_history(line.get());
      return std::string(line.get());
    }
  }

 private:
  std::string file_;
};

class conversation {
 public:
  conversation(client::client& daemon, client::options how) : daemon_(daemon), how_(std::move(how)) {}
  ~conversation() {
    if (own_session_) (void)daemon_.delete_session(how_.session);
  }
  conversation(const conversation&) = delete;
  conversation& operator=(const conversation&) = delete;

  result<void> open() {
    if (!how_.session.empty()) return {};
    auto id = daemon_.create_session();
    if (!id) return std::unexpected(id.error());
    how_.session = std::move(*id);
    own_session_ = true;
    return {};
  }

  void reset() { messages_.clear(); }

  /// Streams the answer to `text`. What was cut off by Ctrl-C stays in the conversation as far as it came.
  result<void> say(std::string text) {
    messages_.push_back({"user", std::move(text)});
    std::string answer;
    progress_bar bar(stderr);
    client::observer watch;
    watch.on_progress = [&](std::int64_t processed, std::int64_t total) { bar.show(processed, total); };
    watch.on_text = [&](std::string_view piece) {
      bar.clear();
      answer += piece;
      fmt::print("{}", printable(piece));
      std::fflush(stdout);
    };
    const interrupt_guard guard(daemon_);
    const auto got = daemon_.chat(messages_, how_, watch);
    bar.clear();
    fmt::print("\n");
    if (answer.empty() && !got) {
      messages_.pop_back();
    } else {
      messages_.push_back({"assistant", std::move(answer)});
    }
    if (!got && got.error().code != "cancelled") return std::unexpected(got.error());
    return {};
  }

 private:
  client::client& daemon_;
  client::options how_;
  std::vector<client::message> messages_;
  bool own_session_ = false;
};

}  // namespace

int chat(client::client& daemon, const client::options& how) {
  conversation talk(daemon, how);
  if (const auto opened = talk.open(); !opened) return report(opened.error());
  if (is_terminal(stdin)) {
    fmt::print("Ctrl-C ends an answer, Ctrl-D the conversation; /reset begins a new one, /exit leaves.\n");
  }
  // Between an answer and the next prompt Ctrl-C ends nothing either.
  const interrupt_watch watch;
  line_editor editor;
  int code = 0;
  while (auto line = editor.next()) {
    if (line->empty()) continue;
    if (*line == "/exit") break;
    if (*line == "/reset") {
      talk.reset();
      continue;
    }
    if (line->starts_with('/')) {
      fmt::print("unknown command; /reset begins a new conversation, /exit leaves\n");
      continue;
    }
    const auto said = talk.say(std::move(*line));
    if (!said) code = report(said.error());
    if (!said && said.error().code == "unreachable") break;
  }
  return code;
}

}  // namespace kvern::cli
