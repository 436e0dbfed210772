#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "gpu/cache/memory_arena.hpp"
#include "gpu/cpu/thread_team.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

/// Instruction sets with kernels of their own. Integer parts are exact in all of them and float additions happen in one
/// order, so they agree to the bit.
enum class isa { scalar, avx2, avx_vnni, avx512_vnni };

/// The narrowest first.
inline constexpr isa all_isas[] = {isa::scalar, isa::avx2, isa::avx_vnni, isa::avx512_vnni};

/// Whether this machine runs kernels of `i`. There are machines with AVX-512 VNNI that lack AVX-VNNI.
bool supported(isa i);
/// The widest of this machine; KVERN_ISA=scalar|avx2|avx_vnni|avx512_vnni narrows it to one that it runs.
isa best_isa();
const char* to_string(isa i);

/// Precision at which activations enter integer matrix products: two int8 planes (15 bits) or one (8 bits), symmetric,
/// one scale for 32 values.
enum class activation_mode { fine, fast };

/// Rows of activations, prepared once for all the matrices they are multiplied with.
class activations {
 public:
  activations(activation_mode mode, isa i);
  ~activations();

  /// Takes `rows` rows of `cols` floats, `stride` floats apart. `x` must stay valid while this is used.
  void assign(const float* x, int rows, int cols, std::int64_t stride, thread_team& team);

  struct data;
  const data& get() const { return *data_; }

 private:
  std::unique_ptr<data> data_;
};

/// A weight matrix [rows = outputs][cols = inputs], packed once at load for one instruction set. Immutable.
class matrix {
 public:
  /// Packs `rows` rows of a tensor of `cols` columns, beginning at `first_row`. Any type of ggml_type works: those
  /// of `packing` (Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS) run packed integer kernels, the others a dequantising
  /// float kernel. Its memory is cut from `arena`. Errors: `model_invalid` (columns not a multiple of the block),
  /// `out_of_memory`.
  static result<std::unique_ptr<matrix>> pack(const gguf_tensor& tensor, std::uint64_t first_row, std::uint64_t rows,
                                              isa i, thread_team& team, memory_arena& arena);
  virtual ~matrix() = default;

  virtual int rows() const = 0;
  virtual int cols() const = 0;
  virtual std::uint64_t bytes() const = 0;

  /// out[r * out_stride + o] = sum over k of W[o][k] * x[r][k], for all rows r of `x` and outputs o.
  /// Each output is added up over k in one fixed order, whatever the number of rows or threads.
  virtual void multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const = 0;

  /// Row `o` dequantised to float32 [cols] (embedding look-up); the file's exact values.
  virtual void row(int o, float* out) const = 0;
};

}  // namespace kvern::gpu::cpu
