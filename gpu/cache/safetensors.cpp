#include "gpu/cache/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <limits>
#include <optional>
#include <utility>

namespace kvern::gpu {
namespace {

namespace json = boost::json;

constexpr std::size_t length_bytes = 8;
constexpr std::size_t most_dims = 8;
constexpr std::string_view metadata_key = "__metadata__";

constexpr std::array<std::pair<std::string_view, tensor_type>, 5> type_names{{{"I8", tensor_type::i8},
                                                                              {"I32", tensor_type::i32},
                                                                              {"F16", tensor_type::f16},
                                                                              {"BF16", tensor_type::bf16},
                                                                              {"F32", tensor_type::f32}}};

std::string_view name_of(tensor_type type) {
  return std::ranges::find(type_names, type, &std::pair<std::string_view, tensor_type>::second)->first;
}

std::unexpected<error> invalid(std::string what) {
  return fail("invalid_session_file", "The file cannot be used: " + std::move(what) + ".");
}

/// a * b, or nullopt where that does not fit.
std::optional<std::uint64_t> times(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

/// A count in JSON.
std::optional<std::uint64_t> count_of(const json::value& v) {
  if (const auto* n = v.if_int64(); n && *n >= 0) return static_cast<std::uint64_t>(*n);
  if (const auto* n = v.if_uint64()) return *n;
  return std::nullopt;
}

/// A tensor's entry of the header, with where it says its data lies.
struct entry {
  tensor_spec spec;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::optional<entry> read_entry(std::string_view name, const json::value& v) {
  const auto* o = v.if_object();
  if (!o) return std::nullopt;
  const auto* type = o->if_contains("dtype");
  const auto* shape = o->if_contains("shape");
  const auto* offsets = o->if_contains("data_offsets");
  if (!type || !type->is_string() || !shape || !shape->is_array() || !offsets || !offsets->is_array())
    return std::nullopt;
  entry out;
  out.spec.name = name;
  const auto known = std::ranges::find(type_names, std::string_view(type->get_string()),
                                       &std::pair<std::string_view, tensor_type>::first);
  if (known == type_names.end()) return std::nullopt;
  out.spec.type = known->second;
  if (shape->get_array().size() > most_dims || offsets->get_array().size() != 2) return std::nullopt;
  std::uint64_t bytes = bytes_of(out.spec.type);
  for (const auto& dim : shape->get_array()) {
    const auto n = count_of(dim);
    const auto product = n ? times(bytes, *n) : std::nullopt;
    if (!product) return std::nullopt;
    out.spec.shape.push_back(*n);
    bytes = *product;
  }
  const auto begin = count_of(offsets->get_array()[0]);
  const auto end = count_of(offsets->get_array()[1]);
  if (!begin || !end || *end < *begin || *end - *begin != bytes) return std::nullopt;
  out.begin = *begin;
  out.end = *end;
  return out;
}

result<file_metadata> read_metadata(const json::value& v) {
  file_metadata out;
  const auto* o = v.if_object();
  if (!o) return invalid("its metadata is no object");
  for (const auto& [key, value] : *o) {
    const auto* text = value.if_string();
    if (!text) return invalid("its metadata holds something that is no text");
    out.emplace(std::string_view(key), std::string_view(*text));
  }
  return out;
}

}  // namespace

const file_tensor* safetensors_file::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

result<safetensors_file> read_safetensors(std::span<const std::byte> file, std::uint64_t max_header) {
  if (file.size() < length_bytes) return invalid("it is shorter than its first field");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > max_header) return invalid(fmt::format("its header is longer than {} bytes", max_header));
  if (length > file.size() - length_bytes) return invalid("it ends within its header");
  const auto data = file.subspan(length_bytes + static_cast<std::size_t>(length));

  json::parse_options options;
  options.max_depth = 4;
  boost::system::error_code problem;
  const auto* text = reinterpret_cast<const char*>(file.data()) + length_bytes;
  const auto header = json::parse({text, static_cast<std::size_t>(length)}, problem, {}, options);
  if (problem || !header.is_object()) return invalid("its header is no JSON object");

  safetensors_file out;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto& [key, value] : header.get_object()) {
    if (key == metadata_key) {
      auto metadata = read_metadata(value);
      if (!metadata) return std::unexpected(std::move(metadata.error()));
      out.metadata = std::move(*metadata);
      continue;
    }
    auto e = read_entry(key, value);
    if (!e) return invalid("its header describes a tensor wrongly");
    if (e->end > data.size()) return invalid("it ends within a tensor");
    places.emplace_back(e->begin, e->end);
    const auto bytes = data.subspan(static_cast<std::size_t>(e->begin), static_cast<std::size_t>(e->end - e->begin));
    out.tensors.emplace(std::string_view(key), file_tensor{std::move(e->spec), bytes});
  }
  // Sorted, each begins where the one before ends: no overlap, no hole, nothing over.
  std::ranges::sort(places);
  std::uint64_t at = 0;
  for (const auto& [begin, end] : places) {
    if (begin != at) return invalid("its tensors overlap or leave holes");
    at = end;
  }
  if (at != data.size()) return invalid("it goes on after its last tensor");
  return out;
}

safetensors_writer::safetensors_writer(const file_metadata& metadata, std::span<const tensor_spec> tensors) {
  json::object header;
  json::object about;
  for (const auto& [key, value] : metadata) about[key] = value;
  header[metadata_key] = std::move(about);
  std::size_t bytes = 0;
  for (const auto& spec : tensors) {
    std::size_t size = bytes_of(spec.type);
    json::array shape;
    for (const auto dim : spec.shape) {
      size *= static_cast<std::size_t>(dim);
      shape.emplace_back(dim);
    }
    header[spec.name] = json::object{
        {"dtype", name_of(spec.type)}, {"shape", std::move(shape)}, {"data_offsets", json::array{bytes, bytes + size}}};
    places_.emplace_back(bytes, size);
    bytes += size;
  }
  auto text = json::serialize(header);
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');  // the data is aligned
  const std::size_t begin = length_bytes + text.size();
  file_.reserve(begin + bytes);
  for (std::size_t i = 0; i < length_bytes; ++i) file_ += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  file_ += text;
  file_.resize(begin + bytes, '\0');
  for (auto& [offset, size] : places_) offset += begin;
}

std::span<std::byte> safetensors_writer::data(std::size_t index) {
  const auto& [offset, size] = places_[index];
  return std::as_writable_bytes(std::span(file_)).subspan(offset, size);
}

}  // namespace kvern::gpu
