#include "common/kube/event_buffer.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace mgpu::kube {

EventBuffer::EventBuffer(std::size_t event_max, std::size_t kept)
    : event_max_(event_max), kept_(kept) {
  MGPU_CHECK(kept <= event_max, "a cut event is longer than the limit");
}

void EventBuffer::append(std::string_view part) {
  while (!part.empty()) {
    const bool has_length = length_bytes_read_ == kLengthBytes;
    part.remove_prefix(has_length ? read_event(part) : read_length(part));
    if (length_bytes_read_ < kLengthBytes || read_ < length_) continue;
    if (!event_.empty()) complete_.push_back(std::exchange(event_, {}));
    length_bytes_read_ = length_ = read_ = 0;
  }
}

std::size_t EventBuffer::read_length(std::string_view part) {
  length_ = length_ << 8 | static_cast<unsigned char>(part.front());
  ++length_bytes_read_;
  return 1;
}

std::size_t EventBuffer::read_event(std::string_view part) {
  const std::size_t count = std::min(part.size(), length_ - read_);
  read_ += count;
  const std::size_t most = length_ > event_max_ ? kept_ : length_;
  event_.append(part.substr(0, std::min(count, most - event_.size())));
  return count;
}

std::vector<std::string> EventBuffer::take() {
  return std::exchange(complete_, {});
}

}  // namespace mgpu::kube
