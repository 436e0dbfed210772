#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/terminal.hpp"

namespace kvern::cli {
namespace {

namespace json = boost::json;

/// "engine.pages_used = 3" lines of an object, nested names joined by points.
void print_fields(const json::object& object, const std::string& prefix) {
  for (const auto& [key, value] : object) {
    const auto name = prefix + std::string(key);
    if (const auto* nested = value.if_object()) {
      print_fields(*nested, name + ".");
    } else if (const auto* text = value.if_string()) {
      fmt::print("{:<34} {}\n", name, printable({text->data(), text->size()}));
    } else if (const auto* number = value.if_double()) {
      fmt::print("{:<34} {:.3f}\n", name, *number);
    } else {
      fmt::print("{:<34} {}\n", name, json::serialize(value));
    }
  }
}

}  // namespace

int status(client::client& daemon, bool as_json) {
  const auto got = daemon.request("GET", "/health");
  if (!got) return report(got.error());
  boost::system::error_code problem;
  const auto health = json::parse(got->body, problem);
  if (problem || !health.is_object()) return report({"protocol", "the daemon's health is not a JSON object"});
  if (as_json) {
    fmt::print("{}\n", json::serialize(health));
  } else {
    fmt::print("{:<34} {}\n", "socket", daemon.socket_path());
    print_fields(health.get_object(), {});
  }
  return got->status == 200 ? 0 : 1;
}

}  // namespace kvern::cli
