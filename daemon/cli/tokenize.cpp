#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/terminal.hpp"

namespace kvern::cli {

int tokenize(client::client& daemon, const tokenize_options& options) {
  const bool from_input = !options.text || *options.text == "-";
  const auto text = from_input ? read_piped_input() : *options.text;
  const auto ids = daemon.tokenize(text, options.add_special, options.parse_special);
  if (!ids) return report(ids.error());
  fmt::print("{}\n", fmt::join(*ids, " "));
  return 0;
}

}  // namespace kvern::cli
