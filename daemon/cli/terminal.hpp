#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace kvern::cli {

/// Text as a terminal may get it: control characters that could move the cursor or change its state become U+FFFD;
/// newlines and tabs stay. `text` must not end within a character.
std::string printable(std::string_view text);

/// A bar of prompt progress, `columns` wide at most: "prompt [#####-----]  50% 512/1024".
std::string progress_line(std::int64_t processed, std::int64_t total, int columns);

/// Draws progress_line on one line of a terminal and takes it away again. Draws nothing on anything else.
class progress_bar {
 public:
  explicit progress_bar(std::FILE* out);
  ~progress_bar() { clear(); }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void show(std::int64_t processed, std::int64_t total);
  void clear();

 private:
  std::FILE* out_;
  bool terminal_;
  bool shown_ = false;
};

/// Whether `stream` is a terminal.
bool is_terminal(std::FILE* stream);

/// All of standard input. Only a file or a pipe is read: nothing waits for a terminal, a socket or a device.
std::string read_piped_input();

}  // namespace kvern::cli
