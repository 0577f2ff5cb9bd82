// Comma-separated text whose first line names the columns. Quotes and spaces have no special
// meaning. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::trace {

// One line of a table. A value that cannot be used is a problem, of which the first one counts: the
// reader of the line goes on with zeros and empty texts.
class Row {
 public:
  // `place` is "FILE line 7".
  Row(std::string place, const std::vector<std::string_view>& columns,
      std::vector<std::string_view> values);

  // The value of a column; empty if there is no such column.
  std::string_view text(std::string_view column) const;
  // A problem: the value is not a whole number from least to most.
  std::int64_t number(std::string_view column, std::int64_t least, std::int64_t most);
  // Notes a problem: FILE line 7, column num_gpu: "x"; expected ...
  void refuse(std::string_view column, std::string_view value, const std::string& expected);

  // Empty: there is none.
  const std::string& problem() const { return problem_; }

 private:
  std::string place_;
  const std::vector<std::string_view>& columns_;
  std::vector<std::string_view> values_;
  std::string problem_;
};

// Calls `read` with each line but the first one, until one has a problem. `source` is the name of
// the text in error messages. Lines may end with LF or CR LF; empty lines are skipped. Errors: the
// problem of a line; there is no header, a column is named twice or one of `columns` is missing,
// the number of values in a line differs from the header, there are more than `rows_max` rows, a
// line or the header is over its limit (limits.h).
Result<void> read_table(std::string_view text, const std::string& source, std::size_t rows_max,
                        std::span<const std::string_view> columns,
                        const std::function<void(Row&)>& read);

}  // namespace mgpu::trace
