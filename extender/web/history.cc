#include "extender/web/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace mgpu::extender {
namespace {

struct Sums {
  std::int64_t core = 0;  // capacity of all cards
  std::int64_t core_used = 0;
  std::int64_t core_free = 0;           // of healthy cards
  std::int64_t core_free_in_parts = 0;  // of these, on cards of which a part is used
  std::int64_t memory = 0;              // MiB
  std::int64_t memory_used = 0;
  std::int64_t cards_free = 0;
  std::int64_t nodes_partly = 0;
};

void add_node(Sums& sums, const Node& node) {
  std::size_t in_use = 0;
  for (const Card& card : node.cards) {
    sums.core += card.capacity.core.value();
    sums.core_used += card.used.core.value();
    sums.memory += card.capacity.memory.value();
    sums.memory_used += card.used.memory.value();
    const bool used = card.used != Share();
    if (used) ++in_use;
    if (!card.usable()) continue;
    sums.core_free += card.room().core.value();
    if (used) {
      sums.core_free_in_parts += card.room().core.value();
    } else {
      ++sums.cards_free;
    }
  }
  if (in_use > 0 && in_use < node.cards.size()) ++sums.nodes_partly;
}

std::optional<double> percent(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return std::nullopt;
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void append(std::string& out, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) {
    fmt::format_to(std::back_inserter(out), ",{:.6g}", *value);
  } else {
    out += ",null";
  }
}

}  // namespace

HistoryPoint current_point(const Ledger& ledger, std::int64_t unix_ms) {
  Sums sums;
  ledger.visit_in_steps([&](const Node& node) { add_node(sums, node); });
  return {.unix_ms = unix_ms,
          .core = percent(sums.core_used, sums.core),
          .memory = percent(sums.memory_used, sums.memory),
          .core_in_parts = percent(sums.core_free_in_parts, sums.core_free),
          .cards_free = static_cast<double>(sums.cards_free),
          .nodes_partly = static_cast<double>(sums.nodes_partly),
          .pods = static_cast<double>(ledger.counts().bound)};
}

std::string points_json(std::span<const HistoryPoint> points) {
  std::string out = "[";
  for (const HistoryPoint& point : points) {
    fmt::format_to(std::back_inserter(out), "{}[{}", out.size() > 1 ? "," : "", point.unix_ms);
    for (const auto& value : {point.core, point.memory, point.core_in_parts, point.cards_free,
                              point.nodes_partly, point.pods}) {
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
