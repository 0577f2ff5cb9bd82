#include "extender/web/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "extender/pricing/cluster_use.h"

namespace mgpu::extender {
namespace {

std::optional<double> in_percent(std::optional<double> part) {
  return part ? std::optional(100 * *part) : std::nullopt;
}

void append(std::string& out, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) {
    fmt::format_to(std::back_inserter(out), ",{:.6g}", *value);
  } else {
    out += ",null";
  }
}

}  // namespace

HistoryPoint current_point(const LedgerReader& ledger, std::int64_t unix_ms) {
  ClusterUse use;
  ledger.visit_in_steps([&](const Node& node) { use.add(node, nullptr); });
  return {.unix_ms = unix_ms,
          .core = in_percent(use.gpu_allocation_ratio()),
          .memory = in_percent(use.memory_allocation_ratio()),
          .core_in_parts = in_percent(use.free_in_parts_ratio()),
          .cards_free = static_cast<double>(use.cards_free),
          .nodes_partly = static_cast<double>(use.nodes_partly_used),
          .pods = static_cast<double>(ledger.counts().bound)};
}

std::string points_json(std::span<const HistoryPoint> points) {
  std::string out = "[";
  for (const HistoryPoint& point : points) {
    fmt::format_to(std::back_inserter(out), "{}[{}", out.size() > 1 ? "," : "", point.unix_ms);
    for (const auto& value : {point.core, point.memory, point.core_in_parts, point.cards_free,
                              point.nodes_partly, point.pods, point.core_used, point.memory_used}) {
      append(out, value);
    }
    out += "]";
  }
  return out + "]";
}

void History::add(const HistoryPoint& point) {
  if (points_.size() >= capacity_) {
    std::vector<HistoryPoint> kept;
    kept.reserve(capacity_);
    for (std::size_t i = 0; i < points_.size(); i += 2) kept.push_back(points_[i]);
    points_ = std::move(kept);
    interval_ = std::min(2 * interval_, kHistoryIntervalMax);
    ++thinned_;
  }
  points_.push_back(point);
}

}  // namespace mgpu::extender
