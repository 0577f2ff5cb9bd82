// The requests of a pod, as Kubernetes computes them (KEP-753, kubernetes
// pkg/api/v1/resource/helpers.go, PodRequests): the maximum of the sum of app containers and
// sidecars, and of each init container plus the sidecars that precede it. The caller adds
// spec.overhead. Pure.
#pragma once

#include <cstdint>

namespace mgpu {

constexpr std::int64_t max_of(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}

// `Quantity` is a type with +=, and with max_of(a, b) for the maximum in each dimension. Init
// containers and sidecars are added in the order of the spec, then app containers.
template <class Quantity>
class PodRequests {
 public:
  // A container that terminates before the next one is started.
  constexpr void add_init(Quantity amount) {
    amount += running_;
    peak_ = max_of(peak_, amount);
  }
  // A sidecar or an app container, which runs until the pod terminates.
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
