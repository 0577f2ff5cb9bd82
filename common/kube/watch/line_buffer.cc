#include "common/kube/watch/line_buffer.h"

#include <utility>

#include "common/base/check.h"

namespace mgpu::kube {

LineBuffer::LineBuffer(std::size_t line_max, std::size_t kept) : line_max_(line_max), kept_(kept) {
  MGPU_CHECK(kept <= line_max, "a cut line is longer than the limit");
}

void LineBuffer::append(std::string_view part) {
  while (!part.empty()) {
    const std::size_t end = part.find('\n');
    append_to_line(part.substr(0, end));
    if (end == std::string_view::npos) return;
    text_ += '\n';
    line_begin_ = text_.size();
    cut_ = false;
    part.remove_prefix(end + 1);
  }
}

void LineBuffer::append_to_line(std::string_view part) {
  if (cut_) return;
  text_.append(part);
  if (text_.size() - line_begin_ <= line_max_) return;
  text_.resize(line_begin_ + kept_);
  cut_ = true;
}

std::string LineBuffer::take(bool ended) {
  if (ended && text_.size() > line_begin_) append("\n");
  // A long line arrives in many parts, and is not copied for each of them.
  if (line_begin_ == 0) return {};
  std::string rest = text_.substr(line_begin_);
  text_.resize(std::exchange(line_begin_, 0));
  return std::exchange(text_, std::move(rest));
}

}  // namespace mgpu::kube
