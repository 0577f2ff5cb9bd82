#include "common/kube/watch/event_buffer.h"

#include <algorithm>
#include <utility>

namespace mgpu::kube {

void EventBuffer::append(std::string_view part) {
  while (!part.empty()) {
    const bool has_length = length_text_.size() == kLengthBytes;
    part.remove_prefix(has_length ? read_event(part) : read_length(part));
    if (length_text_.size() < kLengthBytes || read_ < length_) continue;
    if (!event_.empty()) complete_.push_back(std::exchange(event_, {}));
    length_text_.clear();
    length_ = read_ = 0;
  }
}

std::size_t EventBuffer::read_length(std::string_view part) {
  length_text_ += part.front();
  length_ = length_ << 8 | static_cast<unsigned char>(part.front());
  if (length_text_.size() == kLengthBytes && length_ > event_max_) {
    complete_.push_back(length_text_);
  }
  return 1;
}

std::size_t EventBuffer::read_event(std::string_view part) {
  const std::size_t count = std::min(part.size(), length_ - read_);
  read_ += count;
  if (length_ <= event_max_) event_.append(part.substr(0, count));
  return count;
}

std::vector<std::string> EventBuffer::take() {
  return std::exchange(complete_, {});
}

}  // namespace mgpu::kube
