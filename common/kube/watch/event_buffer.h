// Assembles the events of a watch in protobuf from the parts in which they arrive: each is a
// message after its length, four bytes with the highest first (k8s.io/apimachinery
// pkg/util/framer, NewLengthDelimitedFrameWriter). Of one that is too long only the length is
// delivered, at once, and it is no message: the stream is not one of Kubernetes, or has lost bytes.
// The events do not depend on where the parts begin and end. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/limits.h"

namespace mgpu::kube {

class EventBuffer {
 public:
  explicit EventBuffer(std::size_t event_max = kWatchLineBytesMax) : event_max_(event_max) {}

  void append(std::string_view part);
  // Removes the events that are complete. Those of no bytes are left out.
  std::vector<std::string> take();

 private:
  static constexpr std::size_t kLengthBytes = 4;

  std::size_t read_length(std::string_view part);
  std::size_t read_event(std::string_view part);

  std::size_t event_max_;
  std::vector<std::string> complete_;
  std::string length_text_;
  std::size_t length_ = 0;  // of the event, once length_text_ is complete
  std::size_t read_ = 0;    // bytes of it
  std::string event_;       // those, unless it is too long
};

}  // namespace mgpu::kube
