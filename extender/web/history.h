// What the page shows of the cluster over time: since the start of the extender, in limited memory.
// At its capacity, every second point is removed, and from then on points are twice as
// far apart. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/web/limits.h"

namespace mgpu::extender {

// Ratios are in percent, and not set where they are those of nothing, or not known.
struct HistoryPoint {
  std::int64_t unix_ms = 0;
  std::optional<double> core{};           // the granted part of the compute of all cards
  std::optional<double> memory{};         // and of their memory
  std::optional<double> core_in_parts{};  // the part of the free compute on partly used cards
  std::optional<double> cards_free{};     // healthy cards of which nothing is used
  std::optional<double> nodes_partly{};   // nodes with cards of which some are in use, and not all
  std::optional<double> pods{};
  std::optional<double> core_used{};    // what all processes use of the compute, from Prometheus
  std::optional<double> memory_used{};  // and of the memory
};

// Returns the point of the cluster now, as the metrics count it (cluster_use.h).
HistoryPoint current_point(const LedgerReader& ledger, std::int64_t unix_ms);

// [[unix_ms, core, memory, core_in_parts, cards_free, nodes_partly, pods, core_used,
// memory_used]*], with null for what is not set.
std::string points_json(std::span<const HistoryPoint> points);

class History {
 public:
  // `capacity` is even.
  explicit History(std::size_t capacity = kHistoryPointsMax, Duration interval = kHistoryInterval)
      : capacity_(capacity), interval_(interval) {}

  void add(const HistoryPoint& point);
  // The time between two points now.
  Duration interval() const { return interval_; }
  const std::vector<HistoryPoint>& points() const { return points_; }
  // Increases when points other than the last ones have changed.
  std::uint64_t thinned() const { return thinned_; }

 private:
  const std::size_t capacity_;
  Duration interval_;
  std::vector<HistoryPoint> points_;
  std::uint64_t thinned_ = 0;
};

}  // namespace mgpu::extender
