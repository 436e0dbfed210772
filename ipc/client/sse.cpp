#include "ipc/client/sse.hpp"

namespace kvern::client {

void sse_reader::push(std::string_view piece) {
  for (;;) {
    const auto end = piece.find('\n');
    line_ += piece.substr(0, end);
    if (end == std::string_view::npos) return;
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_);
    line_.clear();
    piece.remove_prefix(end + 1);
  }
}

void sse_reader::take_line(std::string_view line) {
  if (line.empty()) {
    if (has_data_) on_data_(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  if (!line.starts_with("data:")) return;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace kvern::client
