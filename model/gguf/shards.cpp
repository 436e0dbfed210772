#include "model/gguf/shards.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <utility>

#include "model/gguf/quoted_name.hpp"

namespace kvern {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t digits = 5;
constexpr std::uint64_t most_shards = 99999;

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct opened_file {
  file_mapping mapping;
  parsed_file parsed;
};

result<opened_file> open_file(const fs::path& path) {
  auto mapping = file_mapping::open(path);
  if (!mapping) return std::unexpected(mapping.error());
  auto parsed = parse_gguf(mapping->bytes(), file_label(path));
  if (!parsed) return std::unexpected(parsed.error());
  return opened_file{std::move(*mapping), std::move(*parsed)};
}

/// What a file says about the split it belongs to.
struct split_keys {
  std::uint64_t count = 0;
  std::optional<std::uint64_t> no;
  std::optional<std::uint64_t> tensors;
};

result<split_keys> read_split_keys(const metadata& keys) {
  const auto count = keys.find_uint("split.count");
  if (!count) return std::unexpected(count.error());
  const auto no = keys.find_uint("split.no");
  if (!no) return std::unexpected(no.error());
  const auto tensors = keys.find_uint("split.tensors.count");
  if (!tensors) return std::unexpected(tensors.error());
  return split_keys{count->value_or(0), *no, *tensors};
}

std::unexpected<error> invalid(std::string_view label, std::string_view what) {
  return fail("model_invalid", fmt::format("{}: {}.", label, what));
}

/// Opens shard `number` (1-based) and checks that it belongs to the split that the first shard describes.
result<opened_file> open_shard(const fs::path& path, std::uint32_t number, const split_keys& split) {
  const std::string label = file_label(path);
  auto file = open_file(path);
  if (!file) {
    if (file.error().code != "model_missing") return std::unexpected(file.error());
    return fail("model_missing", fmt::format("The model has {} shards and {} (number {}) is missing; put it beside the "
                                             "first.",
                                             split.count, label, number));
  }
  const auto own = read_split_keys(file->parsed.keys);
  if (!own) return std::unexpected(own.error());
  if (own->count != split.count) {
    return invalid(label,
                   fmt::format("its key 'split.count' is {} and the first shard's is {}; fetch all shards of one "
                               "model",
                               own->count, split.count));
  }
  if (own->no != number - 1) {
    return invalid(label,
                   fmt::format("its key 'split.no' is not {}, as its name says; fetch the shard again", number - 1));
  }
  if (own->tensors && own->tensors != split.tensors) {
    return invalid(label,
                   fmt::format("its key 'split.tensors.count' is {} and the first shard's is {}; fetch all shards "
                               "of one model",
                               *own->tensors, *split.tensors));
  }
  return file;
}

}  // namespace

std::optional<shard_name> shard_name::parse(std::string_view file_name) {
  constexpr std::string_view suffix = ".gguf";
  constexpr std::string_view of_mark = "-of-";
  constexpr std::size_t tail = 1 + digits + of_mark.size() + digits;
  if (!file_name.ends_with(suffix)) return std::nullopt;
  file_name.remove_suffix(suffix.size());
  if (file_name.size() <= tail) return std::nullopt;
  const std::string_view numbers = file_name.substr(file_name.size() - tail);
  if (numbers[0] != '-' || numbers.substr(1 + digits, of_mark.size()) != of_mark) return std::nullopt;
  const auto number = parse_number(numbers.substr(1, digits));
  const auto count = parse_number(numbers.substr(tail - digits));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return shard_name{std::string(file_name.substr(0, file_name.size() - tail)), *number, *count};
}

std::string shard_name::of(std::uint32_t n) const { return fmt::format("{}-{:05}-of-{:05}.gguf", base, n, count); }

result<opened_model> open_model(const fs::path& path) {
  const std::string label = file_label(path);
  auto first = open_file(path);
  if (!first) return std::unexpected(first.error());
  const auto split = read_split_keys(first->parsed.keys);
  if (!split) return std::unexpected(split.error());

  opened_model model;
  model.keys = std::move(first->parsed.keys);
  model.tensors = std::move(first->parsed.tensors);
  model.mappings.push_back(std::move(first->mapping));
  if (split->count <= 1) return model;

  const auto name = shard_name::parse(path.filename().native());
  const bool named_as_split = name && name->count == split->count;
  // A file made from the first shard may keep its keys; one that holds every tensor needs no others.
  if (!named_as_split && split->no == 0 && split->tensors == model.tensors.size()) return model;
  if (split->count > most_shards) {
    return invalid(label, fmt::format("the key 'split.count' is {}, above the limit of {}", split->count, most_shards));
  }
  if (!split->no) return invalid(label, "it is a shard without the key 'split.no'; split the model again");
  if (*split->no != 0) {
    const std::string first_name = named_as_split ? quoted_name(name->of(1)) : "its first shard";
    return invalid(label,
                   fmt::format("it is shard {} of {}; open the model by {}", *split->no + 1, split->count, first_name));
  }
  if (!split->tensors)
    return invalid(label, "it is a shard without the key 'split.tensors.count'; split the model again");
  if (!named_as_split || name->number != 1) {
    return invalid(label,
                   fmt::format("its keys say shard 1 of {0} and its name does not; name it NAME-00001-of-{0:05}.gguf, "
                               "beside the others",
                               split->count));
  }

  for (std::uint32_t number = 2; number <= name->count; ++number) {
    auto shard = open_shard(path.parent_path() / name->of(number), number, *split);
    if (!shard) return std::unexpected(shard.error());
    model.mappings.push_back(std::move(shard->mapping));
    model.tensors.insert(model.tensors.end(), std::make_move_iterator(shard->parsed.tensors.begin()),
                         std::make_move_iterator(shard->parsed.tensors.end()));
  }
  if (model.tensors.size() != *split->tensors) {
    return invalid(label,
                   fmt::format("the key 'split.tensors.count' is {} and the {} shards hold {} tensors; fetch all "
                               "shards of one model",
                               *split->tensors, split->count, model.tensors.size()));
  }
  if (const auto ok = check_names_differ(model.tensors, label); !ok) return std::unexpected(ok.error());
  return model;
}

}  // namespace kvern
