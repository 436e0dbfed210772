#pragma once

// The seam between the portable code and the per-instruction-set files (kernels_scalar.cpp, kernels_avx2.cpp,
// kernels_avx_vnni.cpp, kernels_avx512.cpp). Only plain types here: those files are compiled with wider flags than the
// rest, and an inline function they shared with others could be linked in its wide form on a machine that lacks it.

#include <cstddef>
#include <cstdint>

namespace kvern::gpu::cpu {

enum class isa;

/// Weight formats with integer kernels. Sixteen output rows are a strip; a strip's block holds 32 inputs of them.
enum class packing { q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs };

/// What a block of a format is made of: a weight is scale * (quant - offset) + minimum.
struct packing_form {
  int bits;                   ///< of a quant as stored, unsigned: 2, 3, 4, 5, 6 or 8
  int offset;                 ///< 0 or a power of two
  bool minima;                ///< else the minimum is 0
  bool super_blocks = false;  ///< scales and minima are bytes, times f16 factors that serve 8 blocks
  bool halves = false;        ///< a scale (and a minimum) serves 16 inputs, not 32
  bool codebook = false;      ///< what is stored is an index of iq4_codebook, whose entry is the quant
};
inline constexpr packing_form packing_forms[] = {
    {4, 8, false},                        // q4_0
    {4, 0, true},                         // q4_1
    {5, 16, false},                       // q5_0
    {5, 0, true},                         // q5_1
    {8, 128, false},                      // q8_0
    {2, 0, true, true, true},             // q2_k
    {3, 4, false, true, true},            // q3_k
    {4, 0, true, true},                   // q4_k
    {5, 0, true, true},                   // q5_k
    {6, 32, false, true, true},           // q6_k
    {4, 128, false, false, false, true},  // iq4_nl
    {4, 128, false, true, false, true},   // iq4_xs
};
/// Quants of IQ4_NL and IQ4_XS, with their offset.
inline constexpr std::uint8_t iq4_codebook[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                  129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr int super_block = 8;  ///< blocks

inline constexpr int strip_rows = 16;
inline constexpr int block_cols = 32;
inline constexpr int tile_rows = 8;        ///< most rows of activations a kernel takes at once
inline constexpr int attention_tile = 48;  ///< most query vectors an attention kernel takes at once
inline constexpr int block_lines = 32;     ///< keys of an attention block
inline constexpr int round_blocks = 4;     ///< blocks that an attention kernel takes at once
inline constexpr int value_columns = 64;   ///< dimensions of V that are widened at once
inline constexpr int round_lines = round_blocks * block_lines;

/// Where block b of a strip lies: quants at `b * quant_step`, scales at `scales + b * scale_step`, factors at
/// `factors + b / super_block * factor_step`.
///
/// Quants: piece t of 8 is the 64 bytes whose byte 4 * row + i belongs to input 4 t + i. Of 8 bits: the 8 pieces. Of 4
/// to 6: 4 x 64 bytes, the low nibbles of piece j in the low nibble and those of piece j + 4 in the high one; then, of
/// 5 bits, 64 bytes whose bit t is the fifth bit of piece t; of 6 bits, 2 x 64 bytes, of which the first holds the
/// upper two bits of piece j at bit 2 j and the second those of piece j + 4. Of 2 and 3: such 2 x 64 bytes of the low
/// two bits; then, of 3, 64 bytes whose bit t is the third bit of piece t.
///
/// Scales: 16 f16, then 16 f16 minima if there are any; with super-blocks 16 signed bytes and another 16, of the minima
/// or of the second halves, if there are any; with both, the halves' scales in the low nibbles and their minima in the
/// high ones. Factors: 16 f16, then 16 f16 for the minima. Quants are 64-byte aligned.
struct strip_layout {
  std::int64_t quant_step, scales, scale_step, factors, factor_step, bytes;
};
strip_layout layout_of(packing p, std::int64_t blocks);

/// Rows of quantised activations that one tile reads, `rows` of them (8, 4, 2 or 1) interleaved.
///
/// `quants`: for block b, piece t (8 of the high plane, then, when fine, 8 of the low plane) and row r, 4 bytes at
/// ((b * pieces + t) * rows + r) * 4. At b * rows + r: `scales`, `scaled_sums` (scale * sum of the block's integers),
/// `sums` and `first_sums` (of the block's first 16 integers).
struct tile_input {
  const std::int8_t* quants;
  const float* scales;
  const float* scaled_sums;
  const std::int32_t* sums;
  const std::int32_t* first_sums;
};

/// One or two neighbouring strips times `tiles` tiles, one after another in `x`: out[r * out_stride + o] for all rows r
/// of the tiles and outputs o of the strips, of which the last has `outputs` (<= 16).
struct tile_args {
  const std::uint8_t* strip;
  int strips;
  int tiles;
  strip_layout layout;
  std::int64_t blocks;
  tile_input x;
  float* out;
  std::int64_t out_stride;
  int outputs;
  bool fine;
  bool fetch;  ///< ask memory for the strips behind these
};

/// Destination of one quantised row; see tile_input. `row` of `rows`.
struct quantise_args {
  const float* x;
  std::int64_t blocks;
  bool fine;
  int rows, row;
  std::int8_t* quants;
  float* scales;
  float* scaled_sums;
  std::int32_t* sums;
  std::int32_t* first_sums;
};

/// How the values of a cached line are stored.
enum class line_element { f32, f16, bf16, int8 };

inline constexpr int scale_dims = 32;  ///< of a head, that one int8 scale covers at least (fewer at the head's end)

/// Up to attention_tile query vectors of one KV head against a round of keys, whose blocks 0 to 3 need not all be seen.
/// All strides are head_dim rounded up to 16 (`width`), padding is zero. `groups` is 1, or for int8 the scales that a
/// key's head has: ceil(head_dim / 32) when each covers scale_dims, 1 when one covers them all.
struct attention_round {
  int vectors;
  int head_dim;
  int width;
  line_element element;
  int groups;
  std::int64_t scales_at;                      ///< int8: bytes from a key's values to its scales, f16
  float cap;                                   ///< scores become cap * tanh(score / cap); 0: they stay
  bool whole;                                  ///< every vector sees every key
  int begin[round_blocks], end[round_blocks];  ///< keys of the block that a vector sees, of 0 to 31; no others are read
  const void* k[round_lines];                  ///< lines; the head's values lie `offset` bytes on
  const void* v[round_lines];                  ///< likewise
  std::int64_t offset;
  std::int64_t next[round_blocks];          ///< bytes from a block's K to K that is needed soon; 0: none
  int first[round_blocks][attention_tile];  ///< keys of the block that a vector sees: first to last - 1;
  int last[round_blocks][attention_tile];   ///< equal: none
  const float* q;                           ///< [head_dim][vectors], scaled, times log2(e)
  float* largest;                           ///< out, [vectors] maximum of the scores, -inf when no key is seen
  float* total;                             ///< out, [vectors] sum of the weights 2^(score - maximum)
  float* acc;                               ///< out, [vectors][width] sum of weight * V
  float* k_scratch;                         ///< [width][32]
  std::uint16_t* k_words;                   ///< [width][32]
  float* v_scratch;                         ///< [128][value_columns]
  float* weights;                           ///< [attention_tile][128]
  float* k_scales;                          ///< [groups][32]
  float* v_scales;                          ///< [groups][128]
};

/// `rows` rows of `cols` values to int8, with an f16 scale for every `span` values of a row (fewer at its end):
/// quants [rows][cols], scales [rows][ceil(cols / span)], which need not be aligned.
///
/// scale = half(largest magnitude / 127), at most the largest finite half; q = value / scale rounded to nearest even
/// and kept within 127. Values of a span whose scale is 0, and NaN, become 0.
struct quantise_line_args {
  const float* x;
  int rows;
  std::int64_t cols;
  std::int64_t span;
  std::int8_t* quants;
  std::byte* scales;
};

/// `rows` rows of x and four rows of w, of f32, f16 or bf16; strides in elements. Adds the products of columns [0,
/// cols) to the sixteen partial sums acc[(r * 4 + o) * 16 + k % 16] of row r and output o.
struct dot_args {
  const float* x;
  std::int64_t x_stride;
  int rows;
  line_element element;
  const void* w;
  std::int64_t w_stride;
  std::int64_t cols;
  float* acc;
};

struct kernels {
  void (*quantise)(const quantise_args& a);
  /// `rows`, of each tile, is 8, 4, 2 or 1.
  void (*tile)(packing p, int rows, const tile_args& a);

  void (*dot)(const dot_args& a);
  /// out[i] = sum of lanes[16 i] to lanes[16 i + 15], added up as a tree, for i < n, a multiple of 4.
  void (*sum_lanes)(const float* lanes, int n, float* out);
  void (*widen_half)(const std::uint16_t* in, float* out, std::int64_t n);
  void (*widen_bf16)(const std::uint16_t* in, float* out, std::int64_t n);
  void (*narrow_half)(const float* in, std::uint16_t* out, std::int64_t n);
  void (*narrow_bf16)(const float* in, std::uint16_t* out, std::int64_t n);
  void (*quantise_line)(const quantise_line_args& a);

  void (*attend)(const attention_round& a);
  /// Folds what attend found in a later round, `b`, into the sums of earlier ones: [vectors] maxima and totals,
  /// [vectors][width] accumulators. Of what saw no key the other is left as it is.
  void (*merge)(int vectors, int width, float* largest, float* total, float* acc, const float* b_largest,
                const float* b_total, const float* b_acc);
  /// out[i] = acc[i] / total
  void (*finish)(const float* acc, float total, float* out, std::int64_t n);

  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, std::int64_t n);
  void (*silu_mul)(const float* gate, const float* up, float* out, std::int64_t n);
  void (*gelu_mul)(const float* gate, const float* up, float* out, std::int64_t n);
  void (*add)(const float* a, const float* b, float* out, std::int64_t n);
  void (*exp)(const float* x, float* out, std::int64_t n);
  /// out[i] = 2^x[i] for x <= 0, as attention weighs: see power_of_two of kernels_elementwise.hpp.
  void (*weigh)(const float* x, float* out, std::int64_t n);
  void (*soft_cap)(const float* x, float cap, float* out, std::int64_t n);
  /// Turns pairs (a[i], b[i]) by the angle whose cosine and sine are c[i], s[i].
  void (*rotate)(float* a, float* b, const float* c, const float* s, std::int64_t n);
  /// The same for pairs (x[2 i], x[2 i + 1]).
  void (*rotate_adjacent)(float* x, const float* c, const float* s, std::int64_t n);
};

/// The kernels of `i`, or of the scalar reference where this build has none.
const kernels& kernels_for(isa i);

const kernels& scalar_kernels();
#if defined(__x86_64__)
const kernels& avx2_kernels();
const kernels& avx_vnni_kernels();
const kernels& avx512_kernels();
#endif

}  // namespace kvern::gpu::cpu
