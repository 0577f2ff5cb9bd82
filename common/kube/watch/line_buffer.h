// Assembles the lines of a watch from the parts in which they arrive. A line that is too long is
// cut; the lines after it are not affected. The lines do not depend on where the parts begin and
// end. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/kube/limits.h"

namespace mgpu::kube {

class LineBuffer {
 public:
  // A line over `line_max` bytes is cut to `kept` bytes. REQUIRES: kept <= line_max.
  explicit LineBuffer(std::size_t line_max = kWatchLineBytesMax,
                      std::size_t kept = kWatchLineBytesKept);

  void append(std::string_view part);
  // Removes the complete lines, each with its newline. With `ended`, also the last one without.
  std::string take(bool ended);

 private:
  void append_to_line(std::string_view part);

  std::size_t line_max_;
  std::size_t kept_;
  std::string text_;
  std::size_t line_begin_ = 0;  // of the line in text_ that is not complete
  bool cut_ = false;            // the rest of this line is dropped
};

}  // namespace mgpu::kube
