#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/quants/dequantize.hpp"
#include "model/gguf/ggml_type.hpp"
#include "tests/support/golden.hpp"

namespace kvern::gpu::test {

/// A type of the reference data: what index.json says of it.
struct reference_type {
  std::string name;
  std::uint32_t number = 0;
  std::uint32_t block_size = 0;
  std::uint32_t type_size = 0;
  std::size_t values = 0;
  std::string bin;
  std::string f32;
};

/// Of all types; empty when the data is not here.
inline std::vector<reference_type> reference_types() {
  const auto index = kvern::test::golden("quants/index.json");
  if (!index) return {};
  std::vector<reference_type> types;
  const auto document = boost::json::parse(kvern::test::read_file(*index));
  for (const auto& entry : document.at("types").as_array()) {
    reference_type type;
    type.name = entry.at("type").as_string();
    type.number = entry.at("type_id").to_number<std::uint32_t>();
    type.block_size = entry.at("block_size").to_number<std::uint32_t>();
    type.type_size = entry.at("type_size").to_number<std::uint32_t>();
    type.values = entry.at("rows").to_number<std::size_t>() * entry.at("cols").to_number<std::size_t>();
    type.bin = entry.at("bin").as_string();
    type.f32 = entry.at("f32").as_string();
    types.push_back(std::move(type));
  }
  return types;
}

/// The values of `blocks`, as many as whole blocks hold.
inline std::vector<float> dequantized(ggml_type type, std::string_view blocks) {
  std::vector<float> values(blocks.size() / traits(type).type_size * traits(type).block_size);
  dequantize(type, std::as_bytes(std::span(blocks)), values);
  return values;
}

/// Every value of the reference data of type `name`, bit for bit.
inline void expect_reference_bits(std::string_view name) {
  for (const auto& type : reference_types()) {
    if (type.name != name) continue;
    const std::string blocks = kvern::test::read_file(*kvern::test::golden("quants/" + type.bin));
    const std::string wanted = kvern::test::read_file(*kvern::test::golden("quants/" + type.f32));
    const auto values = dequantized(static_cast<ggml_type>(type.number), blocks);
    ASSERT_EQ(values.size(), type.values);
    ASSERT_EQ(wanted.size(), type.values * sizeof(float));
    std::size_t different = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      float want;
      std::memcpy(&want, wanted.data() + i * sizeof want, sizeof want);
      if (std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(want)) continue;
      if (++different <= 5) ADD_FAILURE() << name << " value " << i << " is " << values[i] << ", not " << want;
    }
    EXPECT_EQ(different, 0u) << "of " << values.size();
    return;
  }
  GTEST_SKIP() << "no reference data of " << name;
}

}  // namespace kvern::gpu::test
