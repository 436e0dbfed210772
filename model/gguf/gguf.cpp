#include "model/gguf/gguf.hpp"

#include <algorithm>
#include <utility>

#include "model/gguf/file_mapping.hpp"
#include "model/gguf/metadata.hpp"
#include "model/gguf/shards.hpp"

namespace kvern {

struct gguf_file::impl {
  opened_model model;
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<const gguf_tensor*> by_name;  ///< of model.tensors
};

gguf_file::gguf_file(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
gguf_file::~gguf_file() = default;

result<std::shared_ptr<const gguf_file>> gguf_file::open(const std::filesystem::path& path) {
  auto opened = open_model(path);
  if (!opened) return std::unexpected(opened.error());
  auto made = std::make_unique<impl>();
  made->model = std::move(*opened);
  made->name = path.filename().native();
  for (const auto& mapping : made->model.mappings) made->bytes += mapping.bytes().size();
  for (const auto& tensor : made->model.tensors) made->by_name.push_back(&tensor);
  std::ranges::sort(made->by_name, {}, &gguf_tensor::name);
  return std::shared_ptr<const gguf_file>(new gguf_file(std::move(made)));
}

result<std::optional<std::uint64_t>> gguf_file::find_uint(std::string_view key) const {
  return impl_->model.keys.find_uint(key);
}

result<std::optional<double>> gguf_file::find_float(std::string_view key) const {
  return impl_->model.keys.find_float(key);
}

result<std::optional<bool>> gguf_file::find_bool(std::string_view key) const {
  return impl_->model.keys.find_bool(key);
}

result<std::optional<std::string_view>> gguf_file::find_string(std::string_view key) const {
  return impl_->model.keys.find_string(key);
}

result<std::optional<std::vector<std::string_view>>> gguf_file::find_strings(std::string_view key) const {
  return impl_->model.keys.find_strings(key);
}

result<std::optional<std::vector<std::int64_t>>> gguf_file::find_ints(std::string_view key) const {
  return impl_->model.keys.find_ints(key);
}

result<std::optional<std::vector<float>>> gguf_file::find_floats(std::string_view key) const {
  return impl_->model.keys.find_floats(key);
}

bool gguf_file::has(std::string_view key) const { return impl_->model.keys.find(key) != nullptr; }

bool gguf_file::is_array(std::string_view key) const {
  const metadata_value* value = impl_->model.keys.find(key);
  return value != nullptr && value->type == value_type::array;
}

result<std::uint64_t> gguf_file::get_uint(std::string_view key) const { return impl_->model.keys.get_uint(key); }

result<double> gguf_file::get_float(std::string_view key) const { return impl_->model.keys.get_float(key); }

result<std::string_view> gguf_file::get_string(std::string_view key) const { return impl_->model.keys.get_string(key); }

std::span<const gguf_tensor> gguf_file::tensors() const { return impl_->model.tensors; }

const gguf_tensor* gguf_file::find_tensor(std::string_view name) const {
  const auto at = std::ranges::lower_bound(impl_->by_name, name, {},
                                           [](const gguf_tensor* t) { return std::string_view(t->name); });
  return at != impl_->by_name.end() && (*at)->name == name ? *at : nullptr;
}

std::string_view gguf_file::file_name() const { return impl_->name; }

std::uint64_t gguf_file::file_bytes() const { return impl_->bytes; }

std::vector<std::span<const std::byte>> gguf_file::contents() const {
  std::vector<std::span<const std::byte>> all;
  for (const auto& mapping : impl_->model.mappings) all.push_back(mapping.bytes());
  return all;
}

void gguf_file::forget(const gguf_tensor& tensor) const { file_mapping::forget(tensor.data); }

}  // namespace kvern
