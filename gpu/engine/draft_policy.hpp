#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/engine/step_cost.hpp"

namespace kvern::gpu {

/// Rows that a turn's draft may have in one step.
inline constexpr std::int32_t longest_draft = 24;

/// What steps of few rows cost, where a row more or less matters: measured for one row, two, and each doubling after,
/// with drafts and without.
class row_costs {
 public:
  /// A step of `rows` rows with logits, none of a prompt and `drafted` of them of drafts, took `ms`.
  void observe(std::int32_t rows, std::int32_t drafted, double ms);

  /// Between what was measured lately by interpolation, elsewhere with what `otherwise` says of rows more or less.
  double estimate(std::int32_t rows, std::int32_t drafted, const step_cost& otherwise) const;

  /// Whether steps of about this size without drafts were measured not long ago, and agreed.
  bool is_known(std::int32_t rows) const;

 private:
  struct measured {
    double rows = 0;  ///< mean
    double ms = 0;    ///< mean, the latest counting most
    bool any = false;
    std::int64_t last = 0;   ///< observation
    std::int32_t again = 0;  ///< measurements since there was none to believe
    bool odd = false;        ///< the last took much longer than those before
    bool sure = false;       ///< the last agreed with those before
  };
  using sizes = std::array<measured, 7>;  ///< 1, 2, up to 4, 8, 16, 32, 64 rows

  static void learn(measured& m, std::int32_t rows, double ms, std::int64_t age);
  std::int64_t age(const measured& m) const { return observed_ - m.last; }

  sizes plain_ = {};
  sizes drafted_ = {};
  std::int64_t observed_ = 0;
};

/// How one turn's drafts have fared.
class draft_record {
 public:
  /// What the next turn of its kind may begin with: it believes less of it.
  draft_record passed_on() const;

  /// Of each drafted token, given that those before it were right, behind a match of so many tokens.
  double chance(std::int32_t match) const;
  /// `accepted` of `drafted` tokens were right.
  void observe(std::int32_t match, std::int32_t drafted, std::int32_t accepted);

  /// Steps that drafts have saved, less what they cost, with a small part of all steps as an allowance for trials. No
  /// draft may cost more, so it is not below 0 for long, whatever the text.
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
  double credit_ = 0.25;
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
  std::int32_t rows = 0;      ///< that it has anyway, those of prompts too
  std::int32_t decoding = 0;  ///< of them, turns that generate, those without a wish too
  std::int32_t most = 0;      ///< rows that may be added
};

/// Tokens of each wish to compute in this step. Pure.
///
/// Those that are always wanted come first, as long as a token has some chance. Others are added where the tokens they
/// are expected to bring outweigh the time they take from all turns of the step, within their turn's credit, and a
/// little now and then to find out; none while it is not known what the step takes without them.
/// No turn is to expect less than four fifths of the pace it would have without drafts.
std::vector<std::int32_t> share_drafts(std::span<const draft_wish> wishes, const draft_room& room,
                                       const row_costs& costs, const step_cost& otherwise);

}  // namespace kvern::gpu
