// Assembles the events of a watch in protobuf from the parts in which they arrive: each is a
// message after its length, four bytes with the highest first (k8s.io/apimachinery
// pkg/util/framer, NewLengthDelimitedFrameWriter). One that is too long is cut; those after it are
// not affected. The events do not depend on where the parts begin and end. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/limits.h"

namespace mgpu::kube {

class EventBuffer {
 public:
  // An event over `event_max` bytes is cut to `kept` bytes. REQUIRES: kept <= event_max.
  explicit EventBuffer(std::size_t event_max = kWatchLineBytesMax,
                       std::size_t kept = kWatchLineBytesKept);

  void append(std::string_view part);
  // Removes the events that are complete. Those of no bytes are left out.
  std::vector<std::string> take();

 private:
  static constexpr std::size_t kLengthBytes = 4;

  std::size_t read_length(std::string_view part);
  std::size_t read_event(std::string_view part);

  std::size_t event_max_;
  std::size_t kept_;
  std::vector<std::string> complete_;
  std::size_t length_bytes_read_ = 0;
  std::size_t length_ = 0;  // of the event, once kLengthBytes have been read
  std::size_t read_ = 0;    // bytes of it
  std::string event_;       // those that are kept
};

}  // namespace mgpu::kube
