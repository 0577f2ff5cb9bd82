#include "bench/trace/arrivals.h"

#include <algorithm>
#include <numeric>

#include "bench/trace/go_random.h"
#include "bench/trace/limits.h"

namespace mgpu::trace {
namespace {

// Indices of a list of pods or nodes, sorted by name.
template <class T>
std::vector<std::size_t> by_name(const std::vector<T>& list) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return list[a].name < list[b].name; });
  return order;
}

std::int64_t total_milli(const std::vector<TracePod>& pods, const std::vector<std::size_t>& order) {
  return std::accumulate(
      order.begin(), order.end(), std::int64_t{0},
      [&](std::int64_t sum, std::size_t pod) { return sum + pods[pod].total_milli(); });
}

// Like the published simulator, this compares the target with one card of the next pod only, so the
// total may end above the target.
void draw_more(const std::vector<TracePod>& pods, const std::vector<std::size_t>& sorted,
               std::int64_t total, std::int64_t target, GoRandom& draws,
               std::vector<std::size_t>& order) {
  while (order.size() < limits::kArrivalsMax) {
    const std::size_t next = sorted[draws.below(static_cast<std::uint32_t>(sorted.size()))];
    if (total + pods[next].milli > target) return;
    order.push_back(next);
    total += pods[next].total_milli();
  }
}

// Removes pods at random until the rest is within the target. The rest keeps its order.
void remove_some(const std::vector<TracePod>& pods, std::int64_t total, std::int64_t target,
                 GoRandom& draws, std::vector<std::size_t>& order) {
  while (total > target) {
    const auto next = order.begin() + draws.below(static_cast<std::uint32_t>(order.size()));
    total -= pods[*next].total_milli();
    order.erase(next);
  }
}

// In the published runs the pods request this percentage of all cards.
constexpr std::int64_t kPublishedPercent = 130;
// The published simulator draws one number for its log before it shuffles the pods.
constexpr int kDrawnBeforePods = 1;
// Before the published simulator names the nodes, its API client draws one number for each watch
// that it starts (client-go, reflector.go). The count of ten was found by trial: with it the curves
// equal the published ones.
constexpr int kDrawnBeforeNodes = 10;

void skip(GoRandom& draws, int numbers) {
  for (; numbers > 0; --numbers) draws.next();
}

std::vector<std::size_t> draw_arrivals(const std::vector<TracePod>& pods, std::int64_t target,
                                       GoRandom& draws) {
  skip(draws, kDrawnBeforePods);
  const std::vector<std::size_t> sorted = by_name(pods);
  std::vector<std::size_t> order = sorted;
  draws.shuffle(order);
  const std::int64_t total = total_milli(pods, order);
  if (total < target && !pods.empty()) draw_more(pods, sorted, total, target, draws, order);
  if (total > target) remove_some(pods, total, target, draws, order);
  return order;
}

}  // namespace

// The multiplier keeps neighbouring seeds far apart (Knuth, MMIX).
Draws::Draws(std::uint64_t seed, std::uint64_t purpose)
    : engine_(seed * 6364136223846793005U + purpose) {}

std::uint64_t Draws::below(std::uint64_t bound) {
  // Numbers above the largest multiple of the bound would favour small results.
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
  GoRandom draws(seed);
  return draw_arrivals(pods, target_milli, draws);
}

std::vector<std::size_t> node_numbers(const Trace& trace, std::uint64_t seed) {
  std::int64_t capacity_milli = 0;
  for (const TraceNode& node : trace.nodes) capacity_milli += std::int64_t{1000} * node.cards;
  GoRandom draws(seed);
  draw_arrivals(trace.pods, capacity_milli * kPublishedPercent / 100, draws);
  skip(draws, kDrawnBeforeNodes);
  const std::vector<std::size_t> drawn = draws.permutation(trace.nodes.size());
  const std::vector<std::size_t> sorted = by_name(trace.nodes);
  std::vector<std::size_t> numbers(drawn.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) numbers[sorted[i]] = drawn[i];
  return numbers;
}

}  // namespace mgpu::trace
