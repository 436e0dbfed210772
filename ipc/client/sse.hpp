#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kvern::client {

/// Cuts a stream of server-sent events into the data of each event, however the stream was cut into pieces. Comments
/// and other fields are passed over; several data lines of an event are joined with '\n'.
class sse_reader {
 public:
  explicit sse_reader(std::function<void(std::string_view data)> on_data) : on_data_(std::move(on_data)) {}

  void push(std::string_view piece);

 private:
  void take_line(std::string_view line);

  std::function<void(std::string_view)> on_data_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace kvern::client
