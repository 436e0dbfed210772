#include "daemon/config.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "daemon/version.hpp"

namespace kvern::daemon {
namespace {

/// What a TOML value may be, beside a string that reads like the flag's argument.
enum class value_kind { text, integer, boolean };

struct setting {
  std::string name;  ///< of the flag; '-' may be '_' in TOML
  value_kind kind;
  std::string argument;
  std::string help;
  std::function<result<void>(config&, std::string_view)> set;
};

result<std::int64_t> parse_integer(std::string_view text, int base = 10) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return fail("configuration", fmt::format("'{}' is not a whole number", text));
  }
  return value;
}

setting integer(std::string name, std::string help, std::int32_t config::*member, std::int64_t low, std::int64_t high) {
  auto set = [=](config& c, std::string_view text) -> result<void> {
    const auto value = parse_integer(text);
    if (!value) return std::unexpected(value.error());
    if (*value < low || *value > high) {
      return fail("configuration", fmt::format("{} is out of range: {} to {}", *value, low, high));
    }
    c.*member = static_cast<std::int32_t>(*value);
    return {};
  };
  return {std::move(name), value_kind::integer, "N", std::move(help), std::move(set)};
}

setting text(std::string name, std::string argument, std::string help, std::string config::*member) {
  auto set = [=](config& c, std::string_view value) -> result<void> {
    if (value.empty()) return fail("configuration", "the value is empty");
    if (value.find('\0') != std::string_view::npos) return fail("configuration", "the value holds a NUL byte");
    c.*member = value;
    return {};
  };
  return {std::move(name), value_kind::text, std::move(argument), std::move(help), std::move(set)};
}

setting choice(std::string name, std::string help, std::string config::*member, std::vector<std::string> values) {
  auto set = [=](config& c, std::string_view value) -> result<void> {
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      return fail("configuration", fmt::format("'{}' is not one of {}", value, fmt::join(values, ", ")));
    }
    c.*member = value;
    return {};
  };
  auto argument = fmt::format("{}", fmt::join(values, "|"));
  return {std::move(name), value_kind::text, std::move(argument), std::move(help), std::move(set)};
}

setting boolean(std::string name, std::string help, bool config::*member) {
  auto set = [=](config& c, std::string_view value) -> result<void> {
    if (value != "true" && value != "false") {
      return fail("configuration", fmt::format("'{}' is neither true nor false", value));
    }
    c.*member = value == "true";
    return {};
  };
  return {std::move(name), value_kind::boolean, "true|false", std::move(help), std::move(set)};
}

const std::vector<setting>& settings() {
  static const std::vector<setting> all{
      text("model", "FILE", "the model, a GGUF file (of a split model: its first shard)", &config::model),
      text("socket", "PATH",
           "the Unix socket to serve on (default: $KVERN_SOCKET, $XDG_RUNTIME_DIR/kvern.sock, /run/kvern/kvern.sock)",
           &config::socket),
      integer("threads", "compute threads; 0: one for each physical core", &config::threads, 0, 1024),
      integer("context", "tokens a session may hold; 0: what the model was trained for, at most 8192", &config::context,
              0, 1 << 24),
      integer("max-running", "turns that one step serves; further ones wait", &config::max_running, 1, 4096),
      integer("max-step-ms", "a step that serves running answers takes prompts in for about so long",
              &config::max_step_ms, 1, 60'000),
      {"kv-memory", value_kind::integer, "SIZE", "memory for the cache, e.g. 2GiB (default: a quarter of what is free)",
       [](config& c, std::string_view value) -> result<void> {
         const auto bytes = parse_size(value);
         if (!bytes) return std::unexpected(bytes.error());
         c.kv_memory = *bytes;
         return {};
       }},
      choice("kv-type", "type of cached lines", &config::kv_type, {"f32", "f16", "bf16", "int8"}),
      choice("int8-scale", "what one scale of an int8 line covers: 32 values, a head, or all heads",
             &config::int8_scale, {"group", "head", "line"}),
      choice("layout", "how a session's lines lie in memory: in pages, in one run, or in one that wraps",
             &config::layout, {"paged", "left", "ring"}),
      choice("update", "when lines are written: after a step at once, or layer by layer", &config::update,
             {"lazy", "eager"}),
      boolean("stacked", "one allocation for the lines of all layers, or one for each layer", &config::stacked),
      boolean("stage-stacked", "new lines of all layers lie together and are written in one flush, or layer by layer",
              &config::stage_stacked),
      integer("shards", "parts into which the heads of the cache are split", &config::shards, 1, 1024),
      choice("activations", "precision of matrix products: fine is 15 bits, fast is 8", &config::activations,
             {"fine", "fast"}),
      choice("prompt-lookup",
             "guess tokens from what was said before and compute several in one step: auto is while that helps",
             &config::prompt_lookup, {"auto", "on", "off"}),
      {"socket-mode", value_kind::integer, "OCTAL", "permissions of the socket (default: 0660)",
       [](config& c, std::string_view value) -> result<void> {
         const auto mode = parse_integer(value, 8);
         if (!mode || *mode < 0 || *mode > 0777) {
           return fail("configuration", fmt::format("'{}' is not an octal mode such as 0660", value));
         }
         c.socket_mode = static_cast<mode_t>(*mode);
         return {};
       }},
      choice("log-level", "what is logged to standard error", &config::log_level,
             {"trace", "debug", "info", "warning", "error", "off"}),
  };
  return all;
}

std::string canonical(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Insertions, deletions and replacements between two words.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, replaced});
    }
  }
  return row.back();
}

const std::string& nearest_name(const std::string& name) {
  const auto& all = settings();
  return std::min_element(all.begin(), all.end(),
                          [&](const setting& a, const setting& b) {
                            return edit_distance(a.name, name) < edit_distance(b.name, name);
                          })
      ->name;
}

result<std::string> argument_of(const setting& s, const toml::node& node) {
  if (const auto* string = node.as_string()) return string->get();
  if (const auto* number = node.as_integer(); number && s.kind == value_kind::integer) {
    if (s.name != "socket-mode") return fmt::format("{}", number->get());
    if (number->get() >= 0 && number->get() <= 0777) return fmt::format("{:o}", number->get());
    return fail("configuration",
                fmt::format("{} is not a mode; write it in octal, as \"0660\" or 0o660", number->get()));
  }
  if (const auto* truth = node.as_boolean(); truth && s.kind == value_kind::boolean)
    return std::string(truth->get() ? "true" : "false");
  static constexpr std::array<std::string_view, 3> wanted{"a string", "a number", "true or false"};
  return fail("configuration", fmt::format("takes {}", wanted[static_cast<std::size_t>(s.kind)]));
}

result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  if (in.peek() != std::ifstream::traits_type::eof()) content << in.rdbuf();
  if (!in.is_open() || in.bad() || content.fail()) {
    return fail("configuration", fmt::format("cannot read the configuration file '{}'", path));
  }
  return std::move(content).str();
}

/// What no single setting can see.
result<void> check_together(const config& c) {
  if (!c.int8_scale.empty() && c.kv_type != "int8") {
    return fail("configuration", fmt::format("int8_scale is '{}' and kv_type '{}': only int8 has scales; leave it out",
                                             c.int8_scale, c.kv_type));
  }
  if (c.int8_scale == "line" && c.shards > 1) {
    return fail("configuration", "int8_scale 'line' needs all heads together; use 'head' or 'group' with shards");
  }
  return {};
}

/// "--kv-memmory=1" -> "kv-memmory"
std::optional<std::string> unknown_flag(const CLI::App& app) {
  for (const auto& word : app.remaining()) {
    if (word.starts_with("--")) return word.substr(2, word.find('=') - 2);
  }
  return std::nullopt;
}

}  // namespace

result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  static const std::map<std::string, int> shifts{{"", 0},     {"b", 0},   {"k", 10},   {"kb", 10}, {"kib", 10},
                                                 {"m", 20},   {"mb", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                                                 {"gib", 30}, {"t", 40},  {"tb", 40},  {"tib", 40}};
  const auto shift = shifts.find(unit);
  if (problem != std::errc{} || shift == shifts.end()) {
    return fail("configuration", fmt::format("'{}' is not a size such as 512MiB or 2GiB", text));
  }
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift->second)) {
    return fail("configuration", fmt::format("'{}' is too large a size", text));
  }
  return value << shift->second;
}

result<void> apply_toml(config& c, std::string_view text, std::string_view origin) {
  const auto parsed = toml::parse(text, origin);
  if (!parsed) {
    const auto& where = parsed.error().source().begin;
    return fail("configuration",
                fmt::format("{}:{}:{}: {}", origin, where.line, where.column, parsed.error().description()));
  }
  for (const auto& [key, node] : parsed.table()) {
    const std::string name = canonical(key.str());
    const auto line = node.source().begin.line;
    const auto& all = settings();
    const auto found = std::find_if(all.begin(), all.end(), [&](const setting& s) { return s.name == name; });
    if (found == all.end()) {
      std::string nearest = nearest_name(name);
      std::replace(nearest.begin(), nearest.end(), '-', '_');
      return fail("configuration",
                  fmt::format("{}:{}: unknown key '{}'; did you mean '{}'?", origin, line, key.str(), nearest));
    }
    const auto value = argument_of(*found, node);
    const auto done = value ? found->set(c, *value) : std::unexpected(value.error());
    if (!done)
      return fail("configuration", fmt::format("{}:{}: {}: {}", origin, line, key.str(), done.error().message));
  }
  return {};
}

result<std::variant<config, early_exit>> read_config(std::span<const char* const> arguments) {
  CLI::App app{"kvernd serves a language model to the programs of this machine over a Unix socket.", "kvernd"};
  app.allow_extras();
  app.set_help_flag("-h,--help", "show this help");
  std::string file;
  bool show_version = false;
  config c;
  app.add_option("--config", file, "a TOML file with any of these settings; a flag wins over it")->type_name("FILE");
  std::map<std::string, std::string> given;
  for (const auto& s : settings()) app.add_option("--" + s.name, given[s.name], s.help)->type_name(s.argument);
  app.add_flag("--check", c.check, "verify configuration and model, then exit");
  app.add_flag("--version", show_version, "show the version");

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return early_exit{app.help()};
  } catch (const CLI::ParseError& problem) {
    return fail("configuration", problem.what());
  }
  if (const auto flag = unknown_flag(app)) {
    return fail("configuration",
                fmt::format("unknown option --{}; did you mean --{}?", *flag, nearest_name(canonical(*flag))));
  }
  if (!app.remaining().empty()) {
    return fail("configuration", fmt::format("unexpected argument '{}'", app.remaining().front()));
  }
  if (show_version) return early_exit{fmt::format("kvernd {}\n", version)};

  if (app.count("--config") != 0) {
    auto content = read_file(file);
    if (!content) return std::unexpected(content.error());
    if (auto applied = apply_toml(c, *content, file); !applied) return std::unexpected(applied.error());
  }
  for (const auto& s : settings()) {
    if (app.count("--" + s.name) == 0) continue;
    if (auto done = s.set(c, given[s.name]); !done) {
      return fail("configuration", fmt::format("--{}: {}", s.name, done.error().message));
    }
  }
  if (auto fits = check_together(c); !fits) return std::unexpected(fits.error());
  return c;
}

}  // namespace kvern::daemon
