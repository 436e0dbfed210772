#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "daemon/cli/commands.hpp"
#include "daemon/version.hpp"

namespace {

using kvern::cli::run_options;
using kvern::cli::tokenize_options;

void add_generation_options(CLI::App& command, kvern::client::options& how) {
  command.add_option("--session", how.session, "continue in this session, which keeps its cache")->type_name("ID");
  command.add_option("-n,--max-tokens", how.max_tokens, "at most so many tokens")->check(CLI::NonNegativeNumber);
  command.add_option("--temperature", how.temperature, "0 takes the likeliest token");
  command.add_option("--top-p", how.top_p, "likeliest tokens up to this share");
  command.add_option("--top-k", how.top_k, "so many of the likeliest tokens");
  command.add_option("--seed", how.seed, "the same seed gives the same answer");
  command.add_option("--stop", how.stop, "end before this text (may be repeated)")->type_name("TEXT");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
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
  if (run_command.parsed()) return kvern::cli::run(daemon, run);
  if (chat_command.parsed()) return kvern::cli::chat(daemon, chat_how);
  if (tokenize_command.parsed()) return kvern::cli::tokenize(daemon, tokenize);
  if (status_command.parsed()) return kvern::cli::status(daemon, status_json);
  return 2;
}
