#include "model/gguf/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "model/gguf/byte_reader.hpp"
#include "model/gguf/quoted_name.hpp"

namespace kvern {

namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::uint64_t smallest_key_record = 8 + 4 + 1;             // key length, type, value
constexpr std::uint64_t smallest_tensor_record = 8 + 4 + 8 + 4 + 8;  // name length, n_dims, one dim, type, offset
constexpr std::uint64_t longest_name = 65535;                        // of a key (the format's limit) or tensor
// Far above any model; they keep a damaged count in a large file from asking for gigabytes.
constexpr std::uint64_t most_keys = 1U << 20;
constexpr std::uint64_t most_tensors = 1U << 20;
constexpr std::uint64_t most_elements = 1U << 24;
constexpr std::uint32_t default_alignment = 32;
constexpr std::uint32_t smallest_alignment = 8;
constexpr std::uint32_t largest_alignment = 1U << 20;

class parser {
 public:
  parser(std::span<const std::byte> bytes, std::string_view label) : bytes_(bytes), reader_(bytes), label_(label) {}

  result<parsed_file> parse() {
    if (const auto ok = read_head(); !ok) return std::unexpected(ok.error());
    parsed_file parsed;
    if (auto keys = read_keys()) {
      parsed.keys = std::move(*keys);
    } else {
      return std::unexpected(keys.error());
    }
    const auto alignment = read_alignment(parsed.keys);
    if (!alignment) return std::unexpected(alignment.error());
    if (const auto ok = read_tensors(*alignment, parsed.tensors); !ok) return std::unexpected(ok.error());
    if (const auto ok = check_names_differ(parsed.tensors, label_); !ok) return std::unexpected(ok.error());
    return parsed;
  }

 private:
  struct placed_tensor {
    std::uint64_t offset;  ///< from the start of the data
    std::uint64_t size;
  };

  std::unexpected<error> truncated(std::string_view where) const {
    return fail("model_truncated",
                fmt::format("{} is truncated or damaged: it ends in {}; fetch it again.", label_, where));
  }

  std::unexpected<error> too_many(std::string_view field, std::uint64_t count) const {
    return fail("model_truncated", fmt::format("{} is truncated or damaged: {} is {}, more than the {} bytes left can "
                                               "hold; fetch it again.",
                                               label_, field, count, reader_.left()));
  }

  /// Refuses a count of records of at least `smallest` bytes that the bytes left cannot hold, or that is above `most`.
  result<void> check_count(std::string_view field, std::uint64_t count, std::uint64_t smallest,
                           std::uint64_t most) const {
    if (count > reader_.left() / smallest) return too_many(field, count);
    if (count > most) return invalid(fmt::format("{} is {}, above the limit of {}", field, count, most));
    return {};
  }

  std::unexpected<error> invalid(std::string_view what) const {
    return fail("model_invalid", fmt::format("{}: {}; the file is damaged or was written wrongly.", label_, what));
  }

  std::unexpected<error> unsupported(std::string_view what) const {
    return fail("model_unsupported", fmt::format("{}: {}.", label_, what));
  }

  result<void> read_head() {
    const auto start = as_text(bytes_.first(std::min(bytes_.size(), magic.size())));
    if (start.empty()) return fail("model_truncated", fmt::format("{} is empty (truncated); fetch it again.", label_));
    if (!magic.starts_with(start)) {
      return fail("model_invalid", fmt::format("{} is not a GGUF file: its magic is {}; convert the model to GGUF.",
                                               label_, quoted_name(start)));
    }
    if (!reader_.take(magic.size())) return truncated("the magic");
    const auto version = reader_.read<std::uint32_t>();
    if (!version) return truncated("the version");
    if (*version != 0 && (*version & 0xFFFF) == 0) {
      return unsupported("the file is written in the other byte order (big-endian); use the little-endian file");
    }
    if (*version != 2 && *version != 3) {
      return unsupported(
          fmt::format("GGUF version {} is not supported, only 2 and 3; convert the model again", *version));
    }
    const auto tensors = reader_.read<std::uint64_t>();
    if (!tensors) return truncated("the tensor count");
    const auto keys = reader_.read<std::uint64_t>();
    if (!keys) return truncated("the key count");
    key_count_ = *keys;
    tensor_count_ = *tensors;
    if (auto ok = check_count("the key count (n_kv)", *keys, smallest_key_record, most_keys); !ok) return ok;
    return check_tensor_count();
  }

  result<void> check_tensor_count() const {
    return check_count("the tensor count (n_tensors)", tensor_count_, smallest_tensor_record, most_tensors);
  }

  result<metadata> read_keys() {
    std::vector<metadata_value> values;
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      auto value = read_key(i);
      if (!value) return std::unexpected(value.error());
      values.push_back(*value);
    }
    return metadata::create(std::string(label_), std::move(values));
  }

  result<metadata_value> read_key(std::uint64_t index) {
    metadata_value value;
    const auto key = reader_.read_string();
    if (!key) return truncated(fmt::format("the name of key {}", index));
    if (key->empty() || key->size() > longest_name) {
      return invalid(fmt::format("the name of key {} has {} bytes, not 1 to {}", index, key->size(), longest_name));
    }
    value.key = *key;
    const auto type = reader_.read<std::uint32_t>();
    if (!type) return truncated(fmt::format("the type of key {}", quoted_name(*key)));
    value.type = static_cast<value_type>(*type);
    if (value.type == value_type::array) return read_array(value);
    if (value.type == value_type::string) {
      const auto text = reader_.read_string();
      if (!text) return truncated(fmt::format("the string of key {}", quoted_name(*key)));
      value.bytes = std::as_bytes(std::span(*text));
      return value;
    }
    const std::size_t size = scalar_size(value.type);
    if (size == 0) return invalid(fmt::format("the key {} has the unknown type {}", quoted_name(*key), *type));
    const auto bytes = reader_.take(size);
    if (!bytes) return truncated(fmt::format("the value of key {}", quoted_name(*key)));
    value.bytes = *bytes;
    return check_booleans(value, value.type);
  }

  result<metadata_value> read_array(metadata_value value) {
    const std::string name = quoted_name(value.key);
    const auto element = reader_.read<std::uint32_t>();
    if (!element) return truncated(fmt::format("the element type of key {}", name));
    const auto count = reader_.read<std::uint64_t>();
    if (!count) return truncated(fmt::format("the array length of key {}", name));
    value.element = static_cast<value_type>(*element);
    value.count = *count;
    if (value.element == value_type::array) {
      return unsupported(fmt::format("the key {} is an array of arrays, which is not supported", name));
    }
    if (value.element == value_type::string) return read_string_array(value);
    const std::size_t size = scalar_size(value.element);
    if (size == 0) return invalid(fmt::format("the key {} is an array of the unknown type {}", name, *element));
    if (const auto ok = check_count(fmt::format("the array length of key {}", name), *count, size, most_elements);
        !ok) {
      return std::unexpected(ok.error());
    }
    value.bytes = *reader_.take(*count * size);
    return check_booleans(value, value.element);
  }

  result<metadata_value> read_string_array(metadata_value value) {
    const std::string name = quoted_name(value.key);
    const std::string field = fmt::format("the array length of key {}", name);
    if (const auto ok = check_count(field, value.count, sizeof(std::uint64_t), most_elements); !ok) {
      return std::unexpected(ok.error());
    }
    const std::size_t start = reader_.position();
    for (std::uint64_t i = 0; i < value.count; ++i) {
      if (!reader_.read_string()) return truncated(fmt::format("string {} of key {}", i, name));
    }
    value.bytes = bytes_.subspan(start, reader_.position() - start);
    return value;
  }

  /// `value`, unless it is of booleans and one is neither 0 nor 1.
  result<metadata_value> check_booleans(const metadata_value& value, value_type type) const {
    if (type == value_type::boolean && std::ranges::any_of(value.bytes, [](std::byte b) { return b > std::byte{1}; })) {
      return invalid(fmt::format("the bool of key {} is neither 0 nor 1", quoted_name(value.key)));
    }
    return value;
  }

  result<std::uint32_t> read_alignment(const metadata& keys) const {
    const metadata_value* value = keys.find("general.alignment");
    if (value == nullptr) return default_alignment;
    if (value->type != value_type::u32) {
      return invalid(fmt::format("the key 'general.alignment' is of type {}, not uint32", type_name(value->type)));
    }
    const auto alignment = load<std::uint32_t>(value->bytes);
    if (!std::has_single_bit(alignment) || alignment < smallest_alignment || alignment > largest_alignment) {
      return invalid(fmt::format("the key 'general.alignment' is {}, not a power of two from {} to {}", alignment,
                                 smallest_alignment, largest_alignment));
    }
    return alignment;
  }

  result<void> read_tensors(std::uint32_t alignment, std::vector<gguf_tensor>& tensors) {
    if (auto ok = check_tensor_count(); !ok) return ok;
    std::vector<placed_tensor> places;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      const auto place = read_tensor(i, tensors.emplace_back());
      if (!place) return std::unexpected(place.error());
      if (place->offset % alignment != 0) {
        return invalid(fmt::format("the offset {} of tensor {} is not a multiple of the alignment {}", place->offset,
                                   quoted_name(tensors[i].name), alignment));
      }
      places.push_back(*place);
    }

    const std::uint64_t padding = (alignment - reader_.position() % alignment) % alignment;
    const std::uint64_t data_size = reader_.left() > padding ? reader_.left() - padding : 0;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      const auto [offset, size] = places[i];
      if (offset > data_size || size > data_size - offset) {
        return fail(
            "model_truncated",
            fmt::format("{} is truncated: tensor {} needs {} bytes at offset {} of the data, which has {}; fetch "
                        "the file again.",
                        label_, quoted_name(tensors[i].name), size, offset, data_size));
      }
      tensors[i].data = bytes_.subspan(reader_.position() + padding + offset, size);
    }
    return {};
  }

  result<placed_tensor> read_tensor(std::uint64_t index, gguf_tensor& tensor) {
    const auto name = reader_.read_string();
    if (!name) return truncated(fmt::format("the name of tensor {}", index));
    if (name->empty() || name->size() > longest_name) {
      return invalid(fmt::format("the name of tensor {} has {} bytes, not 1 to {}", index, name->size(), longest_name));
    }
    tensor.name = *name;
    const std::string shown = quoted_name(*name);
    const auto n_dims = reader_.read<std::uint32_t>();
    if (!n_dims) return truncated(fmt::format("n_dims of tensor {}", shown));
    if (*n_dims < 1 || *n_dims > tensor.dims.size()) {
      return invalid(fmt::format("n_dims of tensor {} is {}, not 1 to {}", shown, *n_dims, tensor.dims.size()));
    }
    tensor.n_dims = static_cast<int>(*n_dims);
    for (std::uint32_t i = 0; i < *n_dims; ++i) {
      const auto dim = reader_.read<std::uint64_t>();
      if (!dim) return truncated(fmt::format("the dims of tensor {}", shown));
      tensor.dims[i] = *dim;
    }
    const auto type = reader_.read<std::uint32_t>();
    if (!type) return truncated(fmt::format("the type of tensor {}", shown));
    const auto offset = reader_.read<std::uint64_t>();
    if (!offset) return truncated(fmt::format("the offset of tensor {}", shown));
    const ggml_type_traits* storage = find_traits(*type);
    if (storage == nullptr) {
      return unsupported(
          fmt::format("tensor {} is stored as type {}, which is not supported; use another quantization "
                      "of the model",
                      shown, *type));
    }
    tensor.type = storage->type;
    const auto size = tensor_size(tensor, *storage);
    if (!size) return std::unexpected(size.error());
    return placed_tensor{*offset, *size};
  }

  result<std::uint64_t> tensor_size(const gguf_tensor& tensor, const ggml_type_traits& storage) const {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : tensor.dims) {
      if (dim == 0) return invalid(fmt::format("a dim of tensor {} is 0", quoted_name(tensor.name)));
      if (dim > most / elements) {
        return invalid(fmt::format("the dims of tensor {} multiply to more than 2^63", quoted_name(tensor.name)));
      }
      elements *= dim;
    }
    if (tensor.dims[0] % storage.block_size != 0) {
      return invalid(fmt::format("the rows of tensor {} have {} elements, not a multiple of {}'s {}",
                                 quoted_name(tensor.name), tensor.dims[0], storage.name, storage.block_size));
    }
    const std::uint64_t blocks = elements / storage.block_size;
    if (blocks > most / storage.type_size) {
      return invalid(fmt::format("tensor {} has more than 2^63 bytes", quoted_name(tensor.name)));
    }
    return blocks * storage.type_size;
  }

  std::span<const std::byte> bytes_;
  byte_reader reader_;
  std::string_view label_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

}  // namespace

result<parsed_file> parse_gguf(std::span<const std::byte> bytes, std::string_view label) {
  return parser(bytes, label).parse();
}

result<void> check_names_differ(std::span<const gguf_tensor> tensors, std::string_view label) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return fail("model_invalid",
              fmt::format("{}: the tensor {} stands twice; the file is damaged or was written wrongly.", label,
                          quoted_name(*twice)));
}

}  // namespace kvern
