#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"

namespace kvern::gpu {

/// What a backend holds steps against.
struct step_limits {
  std::int32_t vocab = 0;
  std::int32_t context = 0;
  std::int32_t pages = 0;
  std::int32_t max_rows = 0;
};

/// Decides whether a step can be computed and committed without reading a line that is not there or touching one that
/// somebody's prefix is made of. Keeps scratch memory of `pages` bytes. Not thread-safe.
class step_check {
 public:
  explicit step_check(const step_limits& limits);

  /// `lines` gets, for each row, the line of the page memory it would be committed to (see locate_lines).
  ///
  /// Errors: `invalid_step` when there are no rows or too many, a token, position, sequence or page is out of range,
  /// the rows of a sequence do not stand together at consecutive positions from `committed` on, two rows have one line,
  /// or a row would overwrite a committed line of a sequence of this step.
  result<void> check(const step& s, std::vector<std::int64_t>& lines);

 private:
  result<void> check_rows(const step& s);
  result<void> check_pages(const step& s);
  result<void> check_overwrites(const step& s, const std::vector<std::int64_t>& lines);

  step_limits limits_;
  std::vector<std::uint8_t>
      committed_;                      ///< [page] lines that sequences of the step have committed; zeros between calls
  std::vector<std::int32_t> rows_of_;  ///< [sequence]
};

}  // namespace kvern::gpu
