#include "actors/session_file.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "gpu/cache/safetensors.hpp"

namespace kvern::actors {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

using gpu::page_lines;
using gpu::tensor_spec;
using gpu::tensor_type;

constexpr std::string_view format_name = "kvern-session-1";
constexpr std::uint64_t most_metadata = 1 << 16;
constexpr std::string_view no_checksum = "xxh3-128:00000000000000000000000000000000";
constexpr std::size_t checksum_prefix = 9;
constexpr std::uint64_t header_bytes_of_a_layer = 5 * 160;  // five tensors with their names, shapes and offsets

std::unexpected<error> invalid(std::string what) {
  return fail("invalid_session_file", "The file cannot be used: " + std::move(what) + ".");
}

std::unexpected<error> mismatch(std::string what) {
  return fail("session_file_mismatch", "The file does not belong here: " + std::move(what) + ".");
}

tensor_type tensor_type_of(gpu::line_type type) {
  static constexpr std::array types{tensor_type::f32, tensor_type::f16, tensor_type::bf16, tensor_type::i8};
  return types[static_cast<std::size_t>(type)];
}

std::uint64_t header_limit(const gpu::backend_info& info) {
  return most_metadata + header_bytes_of_a_layer * info.layers.size();
}

/// One of a layer's tensors of lines.
struct line_tensor {
  std::string_view suffix;
  tensor_type type = tensor_type::f32;
  std::vector<std::uint64_t> row;  ///< shape of a line

  std::size_t row_bytes() const {
    std::size_t bytes = gpu::bytes_of(type);
    for (const auto dim : row) bytes *= static_cast<std::size_t>(dim);
    return bytes;
  }
  tensor_spec spec(std::size_t layer, std::size_t lines) const {
    std::vector<std::uint64_t> shape{lines};
    shape.insert(shape.end(), row.begin(), row.end());
    return {fmt::format("layers.{}.{}", layer, suffix), type, std::move(shape)};
  }
};

/// In the order that block_lines have them for a layer.
std::vector<line_tensor> line_tensors(const gpu::backend_info& info) {
  constexpr std::uint64_t group = 32;  // values that a scale of scale_span::group covers
  const auto heads = static_cast<std::uint64_t>(info.kv_heads);
  const auto dim = static_cast<std::uint64_t>(info.head_dim);
  const auto type = tensor_type_of(info.type);
  if (info.type != gpu::line_type::int8) return {{"k", type, {heads, dim}}, {"v", type, {heads, dim}}};
  std::vector<std::uint64_t> scales;
  if (info.scale != gpu::scale_span::line) scales.push_back(heads);
  if (info.scale == gpu::scale_span::group) scales.push_back((dim + group - 1) / group);
  return {{"k", type, {heads, dim}},
          {"k_scale", tensor_type::f16, scales},
          {"v", type, {heads, dim}},
          {"v_scale", tensor_type::f16, scales}};
}

std::string positions_name(std::size_t layer) { return fmt::format("layers.{}.positions", layer); }

/// [table][layer of a page]: the model's layer.
std::vector<std::vector<std::size_t>> layers_of_tables(const gpu::backend_info& info) {
  std::vector<std::vector<std::size_t>> out(info.windows.size(),
                                            std::vector<std::size_t>(static_cast<std::size_t>(info.page_layers)));
  for (std::size_t layer = 0; layer < info.layers.size(); ++layer) {
    const auto& place = info.layers[layer];
    out[static_cast<std::size_t>(place.table)][static_cast<std::size_t>(place.layer)] = layer;
  }
  return out;
}

std::optional<std::int32_t> number(const gpu::file_metadata& metadata, std::string_view key, std::int32_t most) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  std::int32_t value = -1;
  const auto* end = found->second.data() + found->second.size();
  const auto [stopped, problem] = std::from_chars(found->second.data(), end, value);
  if (problem != std::errc{} || stopped != end || value < 0 || value > most) return std::nullopt;
  return value;
}

std::vector<std::int32_t> integers(const gpu::file_tensor& tensor) {
  std::vector<std::int32_t> out(tensor.data.size() / sizeof(std::int32_t));
  if (!out.empty()) std::memcpy(out.data(), tensor.data.data(), out.size() * sizeof(std::int32_t));
  return out;
}

void write_integers(std::span<std::byte> to, std::span<const std::int32_t> values) {
  if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
}

/// The checksum of a whole file, its own digits taken for zeros: they are where `checksum` stands in it first.
std::optional<std::string> checksum_of(std::string_view file, std::string_view checksum) {
  const auto at = file.find(checksum);
  if (checksum.size() != no_checksum.size() || at == std::string_view::npos) return std::nullopt;
  const std::string_view parts[] = {file.substr(0, at), no_checksum, file.substr(at + no_checksum.size())};
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
  if (hash == nullptr || XXH3_128bits_reset(hash.get()) == XXH_ERROR) return std::nullopt;
  for (const auto part : parts) XXH3_128bits_update(hash.get(), part.data(), part.size());
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return fmt::format("{}{:016x}{:016x}", no_checksum.substr(0, checksum_prefix), digest.high64, digest.low64);
}

}  // namespace

std::uint64_t max_session_file_bytes(const gpu::backend_info& info) {
  const auto blocks = static_cast<std::uint64_t>(gpu::blocks_for(info.context)) + 1;
  const auto tokens = static_cast<std::uint64_t>(std::max(info.context, info.max_position)) * sizeof(token_id);
  const auto positions = blocks * page_lines * sizeof(std::int32_t) * info.layers.size();
  return sizeof(std::uint64_t) + header_limit(info) + tokens + positions +
         info.windows.size() * blocks * info.page_bytes;
}

std::string write_session_file(const session_file_terms& terms, const gpu::sequence_state& state,
                               std::vector<gpu::block_lines> blocks) {
  const auto& info = terms.info;
  const auto layers = layers_of_tables(info);
  const auto tensors = line_tensors(info);
  std::ranges::sort(blocks, {}, [](const auto& b) { return std::pair(b.table, b.block); });

  gpu::file_metadata metadata{{"format", std::string(format_name)},
                              {"model", terms.model},
                              {"fingerprint", terms.fingerprint},
                              {"kv_type", std::string(to_string(info.type))},
                              {"committed", std::to_string(state.committed)},
                              {"rotation_keep", std::to_string(state.rotate.keep)},
                              {"rotation_ring", std::to_string(state.rotate.ring)},
                              {"checksum", std::string(no_checksum)}};
  if (info.type == gpu::line_type::int8) metadata.emplace("int8_scale", to_string(info.scale));

  std::vector<tensor_spec> specs{{"tokens", tensor_type::i32, {state.tokens.size()}}};
  std::vector<std::vector<std::int32_t>> positions(layers.size());
  for (const auto& b : blocks) {
    auto& of_table = positions[static_cast<std::size_t>(b.table)];
    for (std::int32_t i = 0; i < b.lines; ++i) of_table.push_back(b.block * page_lines + i);
  }
  for (std::size_t t = 0; t < layers.size(); ++t) {
    const auto lines = positions[t].size();
    for (const auto layer : layers[t]) {
      for (const auto& tensor : tensors) specs.push_back(tensor.spec(layer, lines));
      if (lines != static_cast<std::size_t>(state.committed))
        specs.push_back({positions_name(layer), tensor_type::i32, {lines}});
    }
  }

  gpu::safetensors_writer writer(metadata, specs);
  write_integers(writer.data(0), state.tokens);
  std::size_t tensor = 1;
  auto block = blocks.begin();
  for (std::size_t t = 0; t < layers.size(); ++t) {
    const auto end =
        std::find_if(block, blocks.end(), [&](const auto& b) { return static_cast<std::size_t>(b.table) != t; });
    std::vector<std::size_t> taken(static_cast<std::size_t>(end - block));  // bytes, of each block
    for (std::size_t layer = 0; layer < layers[t].size(); ++layer) {
      for (const auto& what : tensors) {
        auto to = writer.data(tensor++);
        for (auto b = block; b != end; ++b) {
          auto& from = taken[static_cast<std::size_t>(b - block)];
          const auto bytes = static_cast<std::size_t>(b->lines) * what.row_bytes();
          std::memcpy(to.data(), b->bytes.data() + from, bytes);
          to = to.subspan(bytes);
          from += bytes;
        }
      }
      if (positions[t].size() != static_cast<std::size_t>(state.committed))
        write_integers(writer.data(tensor++), positions[t]);
    }
    for (; block != end; ++block) block->bytes = {};
  }
  auto file = writer.take();
  if (const auto sum = checksum_of(file, no_checksum)) file.replace(file.find(no_checksum), sum->size(), *sum);
  return file;
}

/// Reads and checks a file; the steps in order.
class session_file_reader {
 public:
  session_file_reader(session_file& out, const session_file_terms& terms) : out_(out), terms_(terms) {}

  result<void> read() {
    auto read = gpu::read_safetensors(std::as_bytes(std::span(out_.file_)), header_limit(terms_.info));
    if (!read) return std::unexpected(std::move(read.error()));
    file_ = std::move(*read);
    if (auto ok = check_origin(); !ok) return ok;
    if (auto ok = read_state(); !ok) return ok;
    const auto layers = layers_of_tables(terms_.info);
    for (std::size_t t = 0; t < layers.size(); ++t) {
      if (auto ok = read_table(t, layers[t]); !ok) return ok;
    }
    if (used_ != file_.tensors.size()) return invalid("it has tensors that do not belong to a session");
    out_.line_bytes_ = terms_.info.page_bytes / page_lines;
    return check_sum();
  }

 private:
  result<void> check_sum() const {
    const auto given = file_.metadata.find("checksum");
    if (given == file_.metadata.end() || checksum_of(out_.file_, given->second) != given->second)
      return invalid("its checksum is not that of its content: it was damaged or changed");
    return {};
  }

  result<void> check_origin() const {
    const auto text = [&](std::string_view key) {
      const auto found = file_.metadata.find(key);
      return found == file_.metadata.end() ? std::string_view() : std::string_view(found->second);
    };
    if (text("format") != format_name) return invalid(fmt::format("it is not a session of format {}", format_name));
    if (text("model") != terms_.model) return mismatch("it was made with another model");
    if (text("kv_type") != to_string(terms_.info.type)) {
      return mismatch(
          fmt::format("its cache is of another kv_type than {}, which is used here", to_string(terms_.info.type)));
    }
    if (terms_.info.type == gpu::line_type::int8 && text("int8_scale") != to_string(terms_.info.scale)) {
      return mismatch(
          fmt::format("its cache is of another int8_scale than {}, which is used here", to_string(terms_.info.scale)));
    }
    if (text("fingerprint") != terms_.fingerprint)
      return mismatch("it was made with other settings (activations) or another version of kvern");
    return {};
  }

  const gpu::file_tensor* take(const tensor_spec& spec) {
    const auto* tensor = file_.find(spec.name);
    if (tensor == nullptr || tensor->spec != spec) return nullptr;
    used_ += 1;
    return tensor;
  }

  result<void> read_state() {
    const auto& info = terms_.info;
    const auto most_blocks = gpu::blocks_for(std::max(info.context, info.max_position));
    const auto keep = number(file_.metadata, "rotation_keep", most_blocks);
    const auto ring = number(file_.metadata, "rotation_ring", most_blocks);
    if (!keep || !ring || (*ring == 0 && *keep != 0)) return invalid("its rotation is wrong");
    out_.state_.rotate = {*keep, *ring};

    const auto* tokens = file_.find("tokens");
    if (tokens == nullptr || tokens->spec.type != tensor_type::i32 || tokens->spec.shape.size() != 1)
      return invalid("its tokens are missing or no list of I32");
    used_ += 1;
    const auto most = static_cast<std::uint64_t>(*ring > 0 ? info.max_position : info.context);
    if (tokens->spec.shape[0] > most)
      return invalid(fmt::format("it has {} tokens and a session may have {}", tokens->spec.shape[0], most));
    out_.state_.tokens = integers(*tokens);
    for (const auto token : out_.state_.tokens) {
      if (token < 0 || token >= info.vocab) return invalid("it has a token that is not in the vocabulary");
    }
    const auto committed = number(file_.metadata, "committed", static_cast<std::int32_t>(out_.state_.tokens.size()));
    if (!committed) return invalid("its number of committed tokens is wrong");
    out_.state_.committed = *committed;
    return {};
  }

  /// The positions of the lines that layer `layer` has.
  result<std::vector<std::int32_t>> positions_of(std::size_t layer) {
    const auto committed = out_.state_.committed;
    std::vector<std::int32_t> all(static_cast<std::size_t>(committed));
    for (std::int32_t p = 0; p < committed; ++p) all[static_cast<std::size_t>(p)] = p;
    const auto* listed = file_.find(positions_name(layer));
    if (listed == nullptr) return all;
    used_ += 1;
    if (listed->spec.type != tensor_type::i32 || listed->spec.shape.size() != 1)
      return invalid("its positions are no list of I32");
    auto positions = integers(*listed);
    // Whole blocks in ascending order: every line but a block's first follows the one before.
    std::int32_t next = 0;
    for (const auto p : positions) {
      const bool begins = next % page_lines == 0;
      if (p >= committed || p < next || (p != next && !begins) || (begins && p % page_lines != 0))
        return invalid("its positions are out of order, or not those of whole pages");
      next = p + 1;
    }
    if (next % page_lines != 0 && next != committed) return invalid("its last page is not whole");
    return positions;
  }

  result<void> read_table(std::size_t table, const std::vector<std::size_t>& layers) {
    auto positions = positions_of(layers.front());
    if (!positions) return std::unexpected(std::move(positions.error()));
    for (std::size_t i = 1; i < layers.size(); ++i) {
      const auto same = positions_of(layers[i]);
      if (!same) return std::unexpected(same.error());
      if (*same != *positions) return invalid("layers that share pages have lines of different positions");
    }
    std::vector<session_file::part> parts;
    const auto* begin = std::as_bytes(std::span(out_.file_)).data();
    for (const auto layer : layers) {
      for (const auto& what : line_tensors(terms_.info)) {
        const auto* tensor = take(what.spec(layer, positions->size()));
        if (tensor == nullptr)
          return invalid(fmt::format("layers.{}.{} is missing or of the wrong type or shape", layer, what.suffix));
        const auto offset = tensor->data.empty() ? 0 : tensor->data.data() - begin;
        parts.push_back({static_cast<std::size_t>(offset), what.row_bytes()});
      }
    }
    out_.tables_.push_back(std::move(parts));
    std::vector<bool> there(static_cast<std::size_t>(gpu::blocks_for(out_.state_.committed)));
    for (std::size_t row = 0; row < positions->size(); row += page_lines) {
      const auto block = (*positions)[row] / page_lines;
      there[static_cast<std::size_t>(block)] = true;
      const auto lines = std::min<std::int32_t>(page_lines, out_.state_.committed - block * page_lines);
      out_.blocks_.push_back({static_cast<std::int32_t>(table), block, lines, row});
    }
    return check_visible(table, there);
  }

  /// Whether the blocks are there that the next row sees.
  result<void> check_visible(std::size_t table, const std::vector<bool>& there) const {
    const auto& state = out_.state_;
    if (state.committed == 0) return {};
    const auto seen = gpu::visible(state.rotate, terms_.info.windows[table], state.committed);
    const auto has = [&](std::int32_t from, std::int32_t to) {
      for (std::int32_t p = from; p < std::min(to, state.committed); p += page_lines - p % page_lines) {
        if (!there[static_cast<std::size_t>(p / page_lines)]) return false;
      }
      return true;
    };
    if (!has(seen.kept_begin, seen.kept_end) || !has(seen.first, state.committed))
      return invalid("lines are missing that its next token needs");
    return {};
  }

  session_file& out_;
  const session_file_terms& terms_;
  gpu::safetensors_file file_;
  std::size_t used_ = 0;  ///< tensors that were asked for
};

result<session_file> session_file::read(std::string file, const session_file_terms& terms) {
  session_file out;
  out.file_ = std::move(file);
  if (auto ok = session_file_reader(out, terms).read(); !ok) return std::unexpected(std::move(ok.error()));
  return out;
}

std::vector<gpu::block_lines> session_file::next(std::size_t bytes) {
  std::vector<gpu::block_lines> out;
  std::size_t total = 0;
  while (given_ < blocks_.size() && (out.empty() || total < bytes)) {
    const auto& place = blocks_[given_++];
    const auto lines = static_cast<std::size_t>(place.lines);
    gpu::block_lines b{place.table, place.block, place.lines, {}};
    b.bytes.resize(lines * static_cast<std::size_t>(line_bytes_));
    auto* to = b.bytes.data();
    for (const auto& p : tables_[static_cast<std::size_t>(place.table)]) {
      std::memcpy(to, file_.data() + p.offset + place.row * p.row_bytes, lines * p.row_bytes);
      to += lines * p.row_bytes;
    }
    total += b.bytes.size();
    out.push_back(std::move(b));
  }
  return out;
}

}  // namespace kvern::actors
