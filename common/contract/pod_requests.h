// What a pod holds while it runs, by the Kubernetes rule for init containers and sidecars (KEP-753,
// kubernetes pkg/api/v1/resource/helpers.go, PodRequests): the larger of all that stays together,
// and of each init container beside the sidecars declared before it. What a runtime class adds
// (spec.overhead) comes on top, and is the caller's to add. Pure.
#pragma once

#include <cstdint>

namespace mgpu {

constexpr std::int64_t max_of(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}

// `Quantity` is a value that starts at zero, with += and max_of(a, b), which takes the larger of
// each dimension. Init containers and sidecars are added in the order of the spec, then app
// containers.
template <class Quantity>
class PodRequests {
 public:
  // It ends before the next container starts.
  constexpr void add_init(Quantity amount) {
    amount += running_;
    peak_ = max_of(peak_, amount);
  }
  // A sidecar or an app container: it stays until the pod ends.
  constexpr void add_lasting(const Quantity& amount) {
    running_ += amount;
    peak_ = max_of(peak_, running_);
  }
  constexpr const Quantity& peak() const { return peak_; }

 private:
  Quantity running_{};
  Quantity peak_{};
};

}  // namespace mgpu
