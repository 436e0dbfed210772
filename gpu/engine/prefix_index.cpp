#include "gpu/engine/prefix_index.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

namespace kvern::gpu {
namespace {

constexpr auto block_size = static_cast<std::size_t>(page_lines);

block_hash parent_of(std::span<const block_hash> chain, std::size_t block) {
  return block == 0 ? block_hash{} : chain[block - 1];
}

}  // namespace

domain_secret make_secret() {
  std::random_device entropy;
  domain_secret secret;
  for (std::size_t i = 0; i < secret.size(); i += sizeof(std::uint32_t)) {
    const std::uint32_t word = entropy();
    std::memcpy(secret.data() + i, &word, sizeof(word));
  }
  return secret;
}

domain_secret derive_secret(const domain_secret& root, std::string_view domain) {
  domain_secret secret;
  std::string input(1, '\0');
  input += domain;
  for (std::size_t i = 0; i < secret.size(); i += sizeof(XXH128_hash_t)) {
    const XXH128_hash_t hash = XXH3_128bits_withSecret(input.data(), input.size(), root.data(), root.size());
    std::memcpy(secret.data() + i, &hash, sizeof(hash));
    ++input[0];
  }
  return secret;
}

std::vector<block_hash> hash_blocks(std::span<const token_id> tokens, const domain_secret& secret) {
  static_assert(sizeof(domain_secret) >= XXH3_SECRET_SIZE_MIN);
  struct {
    block_hash parent;
    std::array<token_id, block_size> tokens;
  } input;
  std::vector<block_hash> chain;
  chain.reserve(tokens.size() / block_size);
  for (std::size_t first = 0; first + block_size <= tokens.size(); first += block_size) {
    input.parent = parent_of(chain, chain.size());
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first), block_size, input.tokens.begin());
    const XXH128_hash_t hash = XXH3_128bits_withSecret(&input, sizeof(input), secret.data(), secret.size());
    chain.push_back({hash.low64, hash.high64});
  }
  return chain;
}

prefix_index::prefix_index(std::int32_t pages) : entries_(static_cast<std::size_t>(pages)) {}

page_id prefix_index::find(std::int32_t table, std::span<const block_hash> chain, std::size_t block,
                           std::span<const token_id> tokens) const {
  const auto found = pages_.find({chain[block], table});
  if (found == pages_.end()) return no_page;
  const entry& e = entries_[static_cast<std::size_t>(found->second)];
  const auto own = tokens.subspan(block * block_size, block_size);
  if (e.parent != parent_of(chain, block) || !std::equal(own.begin(), own.end(), e.tokens.begin())) return no_page;
  return found->second;
}

bool prefix_index::add(page_id page, std::int32_t table, std::span<const block_hash> chain, std::size_t block,
                       std::span<const token_id> tokens) {
  if (!pages_.try_emplace({chain[block], table}, page).second) return false;
  entry& e = entries_[static_cast<std::size_t>(page)];
  e.hash = chain[block];
  e.parent = parent_of(chain, block);
  e.table = table;
  std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(block * block_size), block_size, e.tokens.begin());
  return true;
}

void prefix_index::remove(page_id page) {
  entry& e = entries_[static_cast<std::size_t>(page)];
  if (e.table < 0) return;
  pages_.erase({e.hash, e.table});
  e.table = -1;
}

}  // namespace kvern::gpu
