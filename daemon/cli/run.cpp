#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/interrupt.hpp"
#include "daemon/cli/terminal.hpp"

namespace kvern::cli {
namespace {

namespace json = boost::json;

/// The text to send: context from a pipe first, then what was asked.
std::string assemble_prompt(const std::optional<std::string>& prompt) {
  std::string piped = read_piped_input();
  if (!prompt || *prompt == "-") return piped;
  if (piped.empty()) return *prompt;
  if (!piped.ends_with('\n')) piped += '\n';
  return piped + "\n" + *prompt;
}

std::string to_json(const client::answer& got) {
  json::object out{{"text", got.text},
                   {"finish_reason", got.finish_reason},
                   {"usage",
                    {{"prompt_tokens", got.prompt_tokens},
                     {"cached_tokens", got.cached_tokens},
                     {"completion_tokens", got.completion_tokens}}}};
  boost::system::error_code problem;
  const auto last = json::parse(got.raw, problem);
  if (!problem && last.is_object()) {
    if (const auto* kvern = last.get_object().if_contains("kvern")) out["kvern"] = *kvern;
  }
  return json::serialize(out);
}

}  // namespace

int report(const error& why) {
  if (why.code == "cancelled") return 130;
  fmt::print(stderr, "kvern: {} ({})\n", why.message, why.code);
  return why.code == "usage" ? 2 : 1;
}

int run(client::client& daemon, const run_options& options) {
  const auto prompt = assemble_prompt(options.prompt);
  if (prompt.empty()) return report({"usage", "there is no prompt; give one as an argument or on standard input"});

  const bool to_terminal = is_terminal(stdout);
  progress_bar bar(stderr);
  bool ends_with_newline = true;
  client::observer watch;
  if (!options.json) {
    watch.on_progress = [&](std::int64_t processed, std::int64_t total) { bar.show(processed, total); };
    watch.on_text = [&](std::string_view text) {
      bar.clear();
      const auto shown = to_terminal ? printable(text) : std::string(text);
      std::fwrite(shown.data(), 1, shown.size(), stdout);
      std::fflush(stdout);
      ends_with_newline = text.ends_with('\n');
      if (std::ferror(stdout) != 0) daemon.cancel();
    };
  }

  const interrupt_guard guard(daemon);
  const client::message message{"user", prompt};
  const auto got =
      options.raw ? daemon.complete(prompt, options.how, watch) : daemon.chat({&message, 1}, options.how, watch);
  bar.clear();
  if (!options.json && !ends_with_newline) fmt::print("\n");
  if (!got) return report(got.error());
  if (options.json) fmt::print("{}\n", to_json(*got));
  return 0;
}

}  // namespace kvern::cli
