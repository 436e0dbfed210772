#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/engine/engine.hpp"

/// A session as a safetensors file. Tensors: `tokens` (I32 [n]); of each layer l `layers.{l}.k` and `.v`
/// [lines, kv_heads, head_dim] in the cache's type, with int8 `.k_scale` and `.v_scale` (F16), and, where not all
/// committed lines are there, their positions `layers.{l}.positions` (I32 [lines]). Metadata: see the protocol.
/// Pure; safe from any thread.
namespace kvern::actors {

/// What the maker of a file and its reader must agree in.
struct session_file_terms {
  std::string model;        ///< fingerprint of the model's content
  std::string fingerprint;  ///< of all that decides bits; see engine_options
  gpu::backend_info info;
};

/// The most bytes a file of a session of this memory can have, unless it was made by others.
std::uint64_t max_session_file_bytes(const gpu::backend_info& info);

/// The file of a sequence and the blocks that are there of it.
std::string write_session_file(const session_file_terms& terms, const gpu::sequence_state& state,
                               std::vector<gpu::block_lines> blocks);

/// A file that was read and checked whole: its tensors, sizes and tokens fit the terms, and of every page table the
/// lines are there that the sequence's next row sees. Movable; not thread-safe.
class session_file {
 public:
  /// Errors: `invalid_session_file`, `session_file_mismatch` (of another model, type of cache or setting).
  static result<session_file> read(std::string file, const session_file_terms& terms);

  const gpu::sequence_state& state() const { return state_; }

  /// The next blocks, at least one and about `bytes` at most; none when all were given.
  std::vector<gpu::block_lines> next(std::size_t bytes);

 private:
  /// K, V or their scales of one layer: where its rows begin in the file, and their size.
  struct part {
    std::size_t offset = 0;
    std::size_t row_bytes = 0;
  };
  struct block_place {
    std::int32_t table = 0;
    std::int32_t block = 0;
    std::int32_t lines = 0;
    std::size_t row = 0;  ///< of its first line, in its layers' tensors
  };
  friend class session_file_reader;

  std::string file_;
  gpu::sequence_state state_;
  std::uint64_t line_bytes_ = 0;           ///< of block_lines, a line
  std::vector<std::vector<part>> tables_;  ///< [table], in the order of block_lines
  std::vector<block_place> blocks_;
  std::size_t given_ = 0;
};

}  // namespace kvern::actors
