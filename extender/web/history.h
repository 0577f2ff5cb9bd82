// The totals of the cluster over time, since the start of the extender, in limited memory: when all
// places are taken, every second sample is removed, and from then on samples are twice as far
// apart. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "extender/ledger/ledger.h"
#include "extender/web/limits.h"

namespace mgpu::extender {

struct Sample {
  std::int64_t unix_ms = 0;
  std::int64_t core = 0;  // capacity of all cards
  std::int64_t core_used = 0;
  std::int64_t core_free = 0;           // of healthy cards
  std::int64_t core_free_in_parts = 0;  // of these, on cards of which a part is used
  std::int64_t memory = 0;              // MiB
  std::int64_t memory_used = 0;
  std::int64_t cards_free = 0;    // healthy cards of which nothing is used
  std::int64_t nodes_partly = 0;  // nodes with cards of which some are in use, and not all
  std::int64_t pods = 0;
};

// Of the cluster now.
Sample sample_of(const Ledger& ledger, std::int64_t unix_ms);

class History {
 public:
  // `places` is even.
  explicit History(std::size_t places = kHistorySamplesMax, Duration interval = kHistoryInterval)
      : places_(places), interval_(interval) {}

  void add(const Sample& sample);
  // The time between two samples now.
  Duration interval() const { return interval_; }
  const std::vector<Sample>& samples() const { return samples_; }
  // Increases when samples other than the last ones have changed.
  std::uint64_t thinned() const { return thinned_; }

  // [[unix_ms, core, core_used, core_free, core_free_in_parts, memory, memory_used, cards_free,
  //   nodes_partly, pods]*], from the sample `begin` on.
  std::string json(std::size_t begin) const;

 private:
  const std::size_t places_;
  Duration interval_;
  std::vector<Sample> samples_;
  std::uint64_t thinned_ = 0;
};

}  // namespace mgpu::extender
