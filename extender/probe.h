// The extender's metrics as verbs; business code knows nothing of Prometheus. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "common/metrics.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/binder.h"

namespace mgpu {

class Probe {
 public:
  // `metrics` and `ledger` outlive the probe.
  Probe(Metrics& metrics, ledger::Ledger& ledger);
  ~Probe();

  // One verb answered: "filter", "prioritize", "preempt", "bind".
  void answered(const char* verb, std::chrono::nanoseconds took);
  void filtered(std::size_t fitting, std::size_t refused);
  void bind_ended(verbs::BindOutcome outcome);
  void bad_request(const char* verb);
  void watch_problem(const char* resource);
  void connections(std::size_t open);
  void connection_refused(const char* why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu
