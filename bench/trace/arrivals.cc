#include "bench/trace/arrivals.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bench/trace/limits.h"

namespace mgpu::trace {
namespace {

std::vector<std::size_t> by_name(const std::vector<TracePod>& pods) {
  std::vector<std::size_t> order(pods.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return pods[a].name < pods[b].name; });
  return order;
}

void shuffle(std::vector<std::size_t>& order, Draws& draws) {
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[draws.below(left)]);
}

std::int64_t total_milli(const std::vector<TracePod>& pods, const std::vector<std::size_t>& order) {
  return std::accumulate(
      order.begin(), order.end(), std::int64_t{0},
      [&](std::int64_t sum, std::size_t pod) { return sum + pods[pod].total_milli(); });
}

// The published simulator looks at one card's share of the next pod only, and so may end above.
void draw_more(const std::vector<TracePod>& pods, const std::vector<std::size_t>& sorted,
               std::int64_t total, std::int64_t target, Draws& draws,
               std::vector<std::size_t>& order) {
  while (order.size() < limits::kArrivalsMax) {
    const std::size_t next = sorted[draws.below(sorted.size())];
    if (total + pods[next].milli > target) return;
    order.push_back(next);
    total += pods[next].total_milli();
  }
}

void take_away(const std::vector<TracePod>& pods, std::int64_t total, std::int64_t target,
               Draws& draws, std::vector<std::size_t>& order) {
  while (total > target) {
    const auto gone = order.begin() + static_cast<std::ptrdiff_t>(draws.below(order.size()));
    total -= pods[*gone].total_milli();
    order.erase(gone);
  }
}

}  // namespace

// The multiplier keeps neighbouring seeds far apart (Knuth, MMIX).
Draws::Draws(std::uint64_t seed, std::uint64_t purpose)
    : engine_(seed * 6364136223846793005U + purpose) {}

std::uint64_t Draws::below(std::uint64_t bound) {
  // Numbers past the last whole multiple of the bound would favour the small ones.
  const std::uint64_t most = std::mt19937_64::max() - std::mt19937_64::max() % bound;
  for (;;) {
    const std::uint64_t number = engine_();
    if (number < most) return number % bound;
  }
}

double Draws::fraction() {
  return static_cast<double>(engine_() >> 11) * 0x1.0p-53;
}

std::vector<std::size_t> arrivals_of(const std::vector<TracePod>& pods, std::int64_t target_milli,
                                     std::uint64_t seed) {
  Draws draws(seed, 1);
  const std::vector<std::size_t> sorted = by_name(pods);
  std::vector<std::size_t> order = sorted;
  shuffle(order, draws);
  const std::int64_t total = total_milli(pods, order);
  if (total <= target_milli) draw_more(pods, sorted, total, target_milli, draws, order);
  if (total > target_milli) take_away(pods, total, target_milli, draws, order);
  return order;
}

}  // namespace mgpu::trace
