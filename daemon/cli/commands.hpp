#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ipc/client/client.hpp"

/// The subcommands of `kvern`. Each returns the exit code: 0 done, 1 failed (the reason is on standard error), 2 used
/// wrongly, 130 cancelled by Ctrl-C.
namespace kvern::cli {

struct run_options {
  std::optional<std::string> prompt;  ///< "-": standard input
  bool raw = false;                   ///< continue the text, without the chat template
  bool json = false;                  ///< one JSON object at the end, nothing before
  client::options how;
};

/// Streams one answer. Piped standard input is put before the prompt, as its context.
int run(client::client& daemon, const run_options& options);

/// Talks: a line is a message. Ctrl-C ends an answer, Ctrl-D the conversation.
int chat(client::client& daemon, const client::options& how);

struct tokenize_options {
  std::optional<std::string> text;  ///< "-" or absent: standard input
  bool add_special = true;
  bool parse_special = false;
};

/// Prints the text's token ids on one line.
int tokenize(client::client& daemon, const tokenize_options& options);

/// Prints what the daemon is and does.
int status(client::client& daemon, bool as_json);

/// Prints an error the way all subcommands do, and gives its exit code.
int report(const error& why);

}  // namespace kvern::cli
