#include "bench/trace/arrival_order.h"

#include <algorithm>
#include <numeric>

#include "bench/trace/arrivals.h"

namespace mgpu::trace {
namespace {

constexpr std::int64_t kWholeCardMilli = 1000;
constexpr std::uint64_t kBlockDraws = 5;

using PodList = std::vector<std::size_t>;

bool is_whole(const TracePod& pod) {
  return pod.milli == kWholeCardMilli;
}

PodList alternating(const PodList& arrivals, const std::vector<TracePod>& pods) {
  PodList kinds[2];  // whole cards, others
  for (const std::size_t pod : arrivals) kinds[is_whole(pods[pod]) ? 0 : 1].push_back(pod);
  PodList ordered;
  for (std::size_t begin = 0; ordered.size() < arrivals.size(); begin += kBlockPods) {
    for (const PodList& kind : kinds) {
      const std::size_t end = std::min(kind.size(), begin + kBlockPods);
      for (std::size_t i = begin; i < end; ++i) ordered.push_back(kind[i]);
    }
  }
  return ordered;
}

PodList random_blocks(const PodList& ascending, std::uint64_t seed) {
  std::vector<std::size_t> blocks(kRandomBlocks);
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  Draws draws(seed, kBlockDraws);
  for (std::size_t left = blocks.size(); left > 1; --left)
    std::swap(blocks[left - 1], blocks[draws.below(left)]);
  PodList ordered;
  for (const std::size_t block : blocks) {
    const std::size_t begin = block * ascending.size() / kRandomBlocks;
    const std::size_t end = (block + 1) * ascending.size() / kRandomBlocks;
    for (std::size_t i = begin; i < end; ++i) ordered.push_back(ascending[i]);
  }
  return ordered;
}

}  // namespace

std::optional<ArrivalOrder> find_arrival_order(std::string_view name) {
  const auto found = std::ranges::find(kArrivalOrders, name);
  if (found == kArrivalOrders.end()) return std::nullopt;
  return static_cast<ArrivalOrder>(found - kArrivalOrders.begin());
}

PodList in_order(PodList arrivals, const std::vector<TracePod>& pods, ArrivalOrder order,
                 std::uint64_t seed) {
  const auto size = [&](std::size_t pod) { return pods[pod].total_milli(); };
  const auto whole = [&](std::size_t pod) { return is_whole(pods[pod]); };
  switch (order) {
    case ArrivalOrder::kDrawn:
      break;
    case ArrivalOrder::kAscending:
      std::ranges::stable_sort(arrivals, {}, size);
      break;
    case ArrivalOrder::kDescending:
      std::ranges::stable_sort(arrivals, std::ranges::greater{}, size);
      break;
    case ArrivalOrder::kSharesFirst:
      std::ranges::stable_sort(arrivals, {}, whole);
      break;
    case ArrivalOrder::kWholeFirst:
      std::ranges::stable_sort(arrivals, std::ranges::greater{}, whole);
      break;
    case ArrivalOrder::kAlternating:
      return alternating(arrivals, pods);
    case ArrivalOrder::kRandomBlocks:
      std::ranges::stable_sort(arrivals, {}, size);
      return random_blocks(arrivals, seed);
  }
  return arrivals;
}

}  // namespace mgpu::trace
