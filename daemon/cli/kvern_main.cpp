#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <limits>

#include "daemon/cli/commands.hpp"
#include "daemon/version.hpp"

namespace {

using kvern::cli::run_options;
using kvern::cli::tokenize_options;

constexpr std::uint64_t most_tokens = std::numeric_limits<std::int32_t>::max();

/// Digits that a number from `low` to `high` is made of; CLI11 would take "-1" for the largest unsigned number.
CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [=](const std::string& text) {
        std::uint64_t value = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = problem == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
        return good ? std::string{} : fmt::format("'{}' is not a whole number from {} to {}", text, low, high);
      },
      "");
}

CLI::Validator real_number(double low, double high) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = problem == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
        return good ? std::string{} : fmt::format("'{}' is not a number from {} to {}", text, low, high);
      },
      "");
}

void add_generation_options(CLI::App& command, kvern::client::options& how) {
  command
      .add_option("--session", how.session,
                  "use this session's cache: what it shares with the prompt is not computed again")
      ->type_name("ID");
  command.add_option("-n,--max-tokens", how.max_tokens, "at most so many tokens")->check(whole_number(1, most_tokens));
  command.add_option("--temperature", how.temperature, "0 takes the likeliest token")->check(real_number(0, 100));
  command.add_option("--top-p", how.top_p, "likeliest tokens up to this share")->check(real_number(0, 1));
  command.add_option("--top-k", how.top_k, "so many of the likeliest tokens; 0: all")
      ->check(whole_number(0, most_tokens));
  command.add_option("--seed", how.seed, "the same seed gives the same answer")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()));
  command.add_option("--stop", how.stop, "end before this text (may be repeated)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"kvern talks to the language model that kvernd serves on this machine.", "kvern"};
  app.set_version_flag("--version", fmt::format("kvern {}", kvern::version));
  app.require_subcommand(1);
  app.fallthrough();
  std::string socket;
  app.add_option("--socket", socket,
                 "the daemon's socket (default: $KVERN_SOCKET, $XDG_RUNTIME_DIR/kvern.sock, /run/kvern/kvern.sock)")
      ->type_name("PATH");

  run_options run;
  auto& run_command = *app.add_subcommand("run", "stream one answer; piped input is its context");
  run_command.add_option("prompt", run.prompt, "what to ask; '-' reads it from standard input");
  run_command.add_flag("--raw", run.raw, "continue the text as it is, without the chat template");
  run_command.add_flag("--json", run.json, "print one JSON object instead of streaming");
  add_generation_options(run_command, run.how);

  kvern::client::options chat_how;
  auto& chat_command = *app.add_subcommand("chat", "talk; Ctrl-C ends an answer, Ctrl-D the conversation");
  add_generation_options(chat_command, chat_how);

  tokenize_options tokenize;
  auto& tokenize_command = *app.add_subcommand("tokenize", "print the token ids of a text");
  tokenize_command.add_option("text", tokenize.text, "the text; '-' or nothing reads standard input");
  tokenize_command.add_flag("!--no-special", tokenize.add_special, "leave out the model's begin and end tokens");
  tokenize_command.add_flag("--parse-special", tokenize.parse_special, "recognise control tokens written in the text");

  bool status_json = false;
  auto& status_command = *app.add_subcommand("status", "show what the daemon is and does");
  status_command.add_flag("--json", status_json, "as one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  }
  kvern::client::client daemon(socket.empty() ? kvern::client::default_socket() : socket);
  int code = 2;
  if (run_command.parsed()) code = kvern::cli::run(daemon, run);
  if (chat_command.parsed()) code = kvern::cli::chat(daemon, chat_how);
  if (tokenize_command.parsed()) code = kvern::cli::tokenize(daemon, tokenize);
  if (status_command.parsed()) code = kvern::cli::status(daemon, status_json);
  // An answer that was not written is no success, whatever the daemon said.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return kvern::cli::report({"output", "standard output could not be written"});
  }
  return code;
}
