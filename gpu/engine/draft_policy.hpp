#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/engine/step_cost.hpp"

namespace kvern::gpu {

/// Rows that a turn's draft may have in one step.
inline constexpr std::int32_t longest_draft = 24;

/// What steps of few rows cost, where a row more or less matters: measured for one row, two, and each doubling after.
class row_costs {
 public:
  /// A step of `rows` rows, none of a prompt, took `ms`.
  void observe(std::int32_t rows, double ms);

  /// Between what was measured by interpolation, elsewhere with what `otherwise` says of rows more or less.
  double estimate(std::int32_t rows, const step_cost& otherwise) const;

  /// Whether a step of about this size was measured not long ago.
  bool is_known(std::int32_t rows) const;

 private:
  struct measured {
    double rows = 0;  ///< mean
    double ms = 0;    ///< mean, the latest counting most
    std::int64_t count = 0;
    std::int64_t last = 0;  ///< observation
  };
  std::array<measured, 7> sizes_ = {};  ///< 1, 2, up to 4, 8, 16, 32, 64 rows
  std::int64_t observed_ = 0;
};

/// How one turn's drafts have fared.
class draft_record {
 public:
  /// Of each drafted token, given that those before it were right, behind a match of so many tokens.
  double chance(std::int32_t match) const;
  /// `accepted` of `drafted` tokens were right.
  void observe(std::int32_t match, std::int32_t drafted, std::int32_t accepted);

  /// Steps that drafts have saved, less what they cost, with a small part of all steps as an allowance for trials: not
  /// below 0 for long, whatever the text.
  double credit() const { return credit_; }
  /// A step brought `tokens` tokens, for `cost` steps' time more than without the turn's draft.
  void settle(std::int32_t tokens, double cost);

 private:
  struct tally {
    double right = 0;
    double tried = 0;
  };
  std::array<tally, 3> by_match_ = {
      {{0.6, 2}, {1.2, 2}, {1.7, 2}}};  ///< short, middle and long matches; a guess at first
  double credit_ = 1;
};

/// What a generating turn could draft.
struct draft_wish {
  std::int32_t most = 0;  ///< tokens of its draft that there is room for
  double chance = 0;      ///< see draft_record
  double credit = 0;
  bool always = false;  ///< whether it pays or not
};

/// A step that drafts may be added to.
struct draft_room {
  std::int32_t rows = 0;      ///< that it has anyway
  std::int32_t decoding = 0;  ///< of them, turns that generate, those without a wish too
  std::int32_t most = 0;      ///< rows that may be added
};

/// Tokens of each wish to compute in this step. Pure.
///
/// Those that are always wanted come first, as long as a token has some chance. Others are added where the tokens they
/// are expected to bring outweigh the time they take from all turns of the step, and a little now and then to find out;
/// none while it is not known what the step takes without them.
/// No turn is to expect less than four fifths of the pace it would have without drafts.
std::vector<std::int32_t> share_drafts(std::span<const draft_wish> wishes, const draft_room& room,
                                       const row_costs& costs, const step_cost& otherwise);

}  // namespace kvern::gpu
