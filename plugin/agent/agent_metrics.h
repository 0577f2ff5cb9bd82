// The metrics of the device plugin itself. Those of cards and containers are in monitor/metrics.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "plugin/allocation/decide.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/containers/self_test.h"
#include "plugin/monitor/drift.h"
#include "plugin/node/other_access.h"

namespace mgpu::plugin {

// Any thread.
class AgentMetrics {
 public:
  // What is read when the metrics are collected.
  struct Status {
    std::size_t allocated = 0;  // containers that have not started
    std::size_t bound = 0;
    std::map<std::string, bool> registered;  // by resource
    bool ready = false;
    std::uint64_t events_dropped = 0;
    std::uint64_t unreadable_pods = 0;
    std::uint64_t unreadable_nodes = 0;
    std::vector<MpsState> mps;
    std::map<CardUuid, bool> exclusive;       // empty: no card is to be
    std::optional<AccessReport> access;       // not set before the first check
    std::string isolation;                    // empty: not chosen yet
    std::map<CardUuid, SelfTest> self_tests;  // of the library
    std::map<DriftKind, std::size_t> drifts;  // of every kind
  };

  explicit AgentMetrics(Metrics& metrics);  // `metrics` outlives it

  void allocated(std::chrono::nanoseconds took);
  void started(std::chrono::nanoseconds took);
  void refused(RefusalReason reason, std::chrono::nanoseconds took);
  void sampled(std::chrono::nanoseconds took);
  void update(const Status& status);

 private:
  Histogram& prestart(const char* result);
  Counter& refusals(RefusalReason reason);

  Metrics& metrics_;
  Histogram& allocate_;
  Histogram& started_;
  Histogram& refused_;
  Gauge& scrape_;
};

}  // namespace mgpu::plugin
