#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"

namespace kvern::gpu {

/// What a backend holds steps against; see backend_info.
struct step_limits {
  std::int32_t vocab = 0;
  std::int32_t context = 0;
  std::int32_t max_position = 0;
  std::int32_t pages = 0;
  std::int32_t max_rows = 0;
  std::vector<std::int32_t> windows = {0};  ///< [table]
};

/// Decides whether a step can be computed and committed without reading a line that is not there or touching one that
/// somebody's prefix is made of. Takes time and memory for what the step's rows see and write, not for what its tables
/// hold. Keeps scratch memory of 4 bytes for each page. Not thread-safe.
class step_check {
 public:
  explicit step_check(step_limits limits);

  /// `lines` gets, [row][table], the line of the page memory a row would be committed to: page * page_lines + offset.
  ///
  /// Errors: `invalid_step` when there are no rows or too many; a token, position, sequence, rotation or page is out of
  /// range; a table has no page for a block that is seen or written (others are not looked at); the rows of a sequence
  /// do not stand together at consecutive positions from `committed` on; two rows have one line; or a row would
  /// overwrite a committed line that a sequence of this step sees, its next row's keys if it has none. `lines` is then
  /// unspecified.
  result<void> check(const step& s, std::vector<std::int64_t>& lines);

 private:
  result<void> check_sequence(const step_sequence& sequence, std::size_t number) const;
  result<void> check_rows(const step& s);
  result<void> check_pages(const step_sequence& sequence, std::size_t number) const;
  result<void> take_lines(const step& s, std::vector<std::int64_t>& lines);
  void release_lines(const step& s);

  std::int64_t blocks_of(const step_sequence& sequence) const;
  page_id page(const step_sequence& sequence, std::size_t table, std::int64_t block) const;
  template <class F>
  void for_seen(const step_sequence& sequence, std::size_t table, F&& visit) const;

  step_limits limits_;
  std::vector<std::uint32_t> taken_;   ///< [page] a bit for each line that is seen or written; zeros between calls
  std::vector<std::int32_t> rows_of_;  ///< [sequence]
};

}  // namespace kvern::gpu
