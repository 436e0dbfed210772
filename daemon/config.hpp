#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.hpp"

namespace kvern::daemon {

/// What kvernd is told by its flags and its configuration file. Each member is a flag and a TOML key of its name.
struct config {
  std::string model;              ///< GGUF file
  std::string socket;             ///< empty: default_socket()
  std::int32_t threads = 0;       ///< 0: physical cores
  std::int32_t context = 0;       ///< 0: what the model was trained for, at most 8192
  std::int32_t max_running = 64;  ///< turns in one step
  std::int32_t max_step_ms = 50;  ///< of a step with running answers, by estimate
  std::uint64_t kv_memory = 0;    ///< bytes; 0: a share of the free memory
  std::string kv_type = "f16";
  std::string int8_scale;  ///< of kv_type int8; empty: group
  std::string layout = "paged";
  std::string update = "lazy";
  bool stacked = true;
  bool stage_stacked = true;
  std::int32_t shards = 1;
  std::string activations = "fine";
  std::string prompt_lookup = "auto";
  mode_t socket_mode = 0660;
  std::string log_level = "info";

  bool check = false;  ///< only verify configuration and model
};

/// Where a request to show something, rather than to run, ends the program.
struct early_exit {
  std::string text;
};

/// Reads flags, and the file that --config names; a flag wins over the file.
/// Errors: `configuration`: an unknown flag or key (with the nearest known one), a value out of range, values that
/// contradict each other, a file that cannot be read.
result<std::variant<config, early_exit>> read_config(std::span<const char* const> arguments);

/// Applies a TOML text to `c`. `origin` names the file in errors.
result<void> apply_toml(config& c, std::string_view text, std::string_view origin);

/// "512MiB", "2GB", "4096" (bytes); B, K, M, G, T with or without B or iB. K is 1024 in each of them.
result<std::uint64_t> parse_size(std::string_view text);

}  // namespace kvern::daemon
