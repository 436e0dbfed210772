#include "daemon/loader.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <utility>

#include "daemon/content_hash.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "gpu/cpu/machine.hpp"
#include "gpu/engine/cache_domain.hpp"
#include "model/chat/chat_prompt.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::daemon {
namespace {

/// The type that most of the weights' bytes have.
std::string file_type(const gguf_file& file) {
  std::map<ggml_type, std::uint64_t> bytes;
  for (const auto& tensor : file.tensors()) bytes[tensor.type] += tensor.data.size();
  if (bytes.empty()) return "none";
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return std::string(traits(most->first).name);
}

std::int64_t modified_time(const std::string& path) {
  struct stat what {};
  return stat(path.c_str(), &what) == 0 ? what.st_mtime : 0;
}

result<model_info> describe(const gguf_file& file, const config& c) {
  model_info info;
  info.id = std::filesystem::path(c.model).stem().string();
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) return std::unexpected(architecture.error());
  info.architecture = *architecture;
  const auto name = file.find_string("general.name");
  if (!name) return std::unexpected(name.error());
  info.description = name->value_or("");
  const auto trained = file.find_uint(info.architecture + ".context_length");
  if (!trained) return std::unexpected(trained.error());
  info.trained_context = static_cast<std::int64_t>(trained->value_or(0));
  info.file_type = file_type(file);
  info.file_bytes = file.file_bytes();
  info.created = modified_time(c.model);
  for (const auto& tensor : file.tensors()) info.parameters += tensor.elements();
  return info;
}

result<std::shared_ptr<const chat::chat_template>> load_template(const gguf_file& file) {
  const auto source = file.find_string("tokenizer.chat_template");
  if (!source) return std::unexpected(source.error());
  if (!*source) return std::shared_ptr<const chat::chat_template>{};
  auto compiled = chat::chat_template::compile(**source);
  if (!compiled) {
    return fail("model_invalid",
                fmt::format("{}: the chat template cannot be used: {}", file.file_name(), compiled.error().message));
  }
  if (const auto probed = chat::probe(**compiled); !probed) {
    return fail("model_invalid",
                fmt::format("{}: the chat template cannot be used: {}", file.file_name(), probed.error().message));
  }
  return compiled;
}

/// A cache that the machine's memory and swap together cannot hold is a wrong setting, not a lack of memory now.
result<void> check_kv_memory(const config& c) {
  struct sysinfo machine {};
  if (c.kv_memory == 0 || sysinfo(&machine) != 0) return {};
  const auto all = (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
  if (c.kv_memory <= all) return {};
  return fail("configuration", fmt::format("kv_memory is {} MiB and this machine has {} MiB of memory; lower it",
                                           c.kv_memory >> 20, all >> 20));
}

std::int32_t threads_of(const config& c) { return c.threads > 0 ? c.threads : gpu::cpu::usable_cores(); }

/// Raised when kernels come to compute other bits of the same model: lines of an older version are of no use then.
constexpr std::string_view arithmetic = "2";

std::string int8_scale(const config& c) {
  if (c.kv_type != "int8") return {};
  return c.int8_scale.empty() ? "group" : c.int8_scale;
}

gpu::cache_options cache_options(const config& c) {
  gpu::cache_options out;
  out.layout = gpu::parse_cache_layout(c.layout).value_or(out.layout);
  out.update = gpu::parse_cache_update(c.update).value_or(out.update);
  out.stacked = c.stacked;
  out.stage_stacked = c.stage_stacked;
  out.type = gpu::parse_line_type(c.kv_type).value_or(out.type);
  out.scale = gpu::parse_scale_span(c.int8_scale).value_or(out.scale);
  out.shards = c.shards;
  return out;
}

gpu::prompt_lookup_mode prompt_lookup(const config& c) {
  if (c.prompt_lookup == "on") return gpu::prompt_lookup_mode::on;
  return c.prompt_lookup == "off" ? gpu::prompt_lookup_mode::off : gpu::prompt_lookup_mode::automatic;
}

cache_setup cache_setup_of(const config& c) {
  return {c.layout, c.update, c.stacked, c.stage_stacked, c.kv_type, int8_scale(c), c.shards};
}

gpu::cpu::cpu_options backend_options(const config& c, const std::function<void(double)>& progress) {
  gpu::cpu::cpu_options options;
  options.threads = threads_of(c);
  options.context = c.context;
  options.kv_memory = c.kv_memory;
  options.cache = cache_options(c);
  options.activations = c.activations == "fast" ? gpu::cpu::activation_mode::fast : gpu::cpu::activation_mode::fine;
  options.progress = progress;
  return options;
}

/// The hash of a model's files, in the making: on a thread of its own, since it takes as long as reading them.
result<std::future<std::string>> begin_hash(const std::shared_ptr<const gguf_file>& file) {
  try {
    return std::async(std::launch::async, [file] { return content_hash(file->contents()); });
  } catch (const std::system_error&) {
    return fail("threads_unavailable", "no thread could be started to read the model; raise the limit of processes");
  }
}

}  // namespace

result<actors::system_options> load(const config& c, const std::function<void(double)>& progress) {
  if (c.model.empty()) {
    return fail("configuration", "no model is named; give one with --model or the key 'model'");
  }
  if (const auto fits = check_kv_memory(c); !fits) return std::unexpected(fits.error());
  const auto file = gguf_file::open(c.model);
  if (!file) return std::unexpected(file.error());

  actors::system_options options;
  auto info = describe(**file, c);
  if (!info) return std::unexpected(info.error());
  auto tokens = tokenizer::create(**file);
  if (!tokens) return std::unexpected(tokens.error());
  auto compiled = load_template(**file);
  if (!compiled) return std::unexpected(compiled.error());

  auto hash = begin_hash(*file);
  if (!hash) return std::unexpected(hash.error());
  auto backend = gpu::cpu::load_cpu_backend(*file, backend_options(c, progress));
  if (!backend) return std::unexpected(backend.error());
  info->context = (*backend)->info().context;
  info->vocab = (*backend)->info().vocab;
  info->has_chat_template = *compiled != nullptr;
  if ((*tokens)->vocab_size() != info->vocab) {
    return fail("model_invalid", fmt::format("{}: the tokenizer has {} tokens and the output matrix {} rows",
                                             (*file)->file_name(), (*tokens)->vocab_size(), info->vocab));
  }

  info->fingerprint = hash->get();
  const gpu::domain_part parts[] = {{"model", info->fingerprint},
                                    {"arithmetic", arithmetic},
                                    {"kv_type", c.kv_type},
                                    {"int8_scale", int8_scale(c)},
                                    {"activations", c.activations}};
  options.fingerprint = gpu::encode_domain(parts);

  gpu::engine_options engine_options;
  engine_options.layout = cache_options(c).layout;
  engine_options.fingerprint = options.fingerprint;
  engine_options.max_running = c.max_running;
  engine_options.max_step_ms = c.max_step_ms;
  engine_options.prompt_lookup = prompt_lookup(c);
  engine_options.is_end = [vocabulary = *tokens](token_id id) { return vocabulary->is_end(id); };
  auto engine = gpu::engine::create(std::move(*backend), std::move(engine_options));
  if (!engine) return std::unexpected(engine.error());

  options.engine = std::move(*engine);
  options.tokens = std::move(*tokens);
  options.chat_template = std::move(*compiled);
  options.model = std::move(*info);
  options.cache = cache_setup_of(c);
  options.activations = c.activations;
  options.prompt_lookup = c.prompt_lookup;
  options.threads = threads_of(c);
  return options;
}

}  // namespace kvern::daemon
