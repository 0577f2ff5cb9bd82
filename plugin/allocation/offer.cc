#include "plugin/allocation/offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/contract/gpu_request.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

namespace {

Share smaller_of(const Share& a, const Share& b) {
  return {std::min(a.core, b.core), std::min(a.memory, b.memory)};
}

// What a pod requests of one card.
Share request_on(const CardFacts& card, const GpuRequest& request, const Placement& placement) {
  ContainerSet on_card = 0;
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    if (std::ranges::binary_search(placement.cards_of[i], card.index)) {
      on_card |= ContainerSet{1} << i;
    }
  }
  return hold_on({kWholeCard, MiB()}, request.containers, on_card);
}

using PlacedRequests = std::vector<std::pair<GpuRequest, Placement>>;

PlacedRequests placed_requests(const std::vector<kube::Pod>& pods, const Contract& contract) {
  PlacedRequests placed;
  for (const kube::Pod& pod : pods) {
    if (pod.finished()) continue;
    auto request = read_containers(pod, contract, MiB());
    if (!request || request->empty()) continue;
    auto placement = read_placement(pod, *request, contract);
    if (placement) placed.emplace_back(*std::move(request), *std::move(placement));
  }
  return placed;
}

// The sum over the unhealthy cards of what is held of each, at most all of it.
Share sum_of_unhealthy(const std::vector<CardFacts>& cards,
                       const std::function<Share(const CardFacts&)>& held_of) {
  Share sum;
  for (const CardFacts& card : cards) {
    if (!card.healthy()) sum += smaller_of(held_of(card), card.capacity());
  }
  MGPU_CHECK(sum.core >= Percent() && sum.memory >= MiB(), "what is held is not negative");
  return sum;
}

// The rank of ids: those in use on healthy cards come first, then those on unhealthy cards, then
// free ones.
std::map<std::string, int> ranks_in_use(const std::vector<CardFacts>& cards,
                                        const std::vector<Record>& records) {
  const auto is_healthy = [&](const CardGrant& grant) {
    const auto card = std::ranges::find(cards, grant.uuid, &CardFacts::uuid);
    return card != cards.end() && card->healthy();
  };
  std::map<std::string, int> ranks;
  for (const Record& record : records) {
    // A container that has not started yet may still get a healthy card.
    const int rank = std::ranges::all_of(record.cards, is_healthy) ? 0 : 1;
    for (const std::string& id : record.devices.ids()) {
      const auto [at, added] = ranks.emplace(id, rank);
      if (!added) at->second = std::min(at->second, rank);
    }
  }
  return ranks;
}

// Those of all cards. Where the compute of the cards was more before, ids above may still be in
// use.
std::int64_t ids_to_choose_from(const std::vector<CardFacts>& cards,
                                const std::map<std::string, int>& in_use) {
  Percent all;
  for (const CardFacts& card : cards) all += card.core;
  std::size_t found = 0;
  std::int64_t n = 0;
  const std::int64_t most = std::ssize(cards) * kCardCoreMax;
  for (; n < all.value(); ++n) found += in_use.count(core_device_id(n));
  for (; n < most && found < in_use.size(); ++n) found += in_use.count(core_device_id(n));
  MGPU_DEBUG_CHECK(found <= in_use.size(), "no id in use is counted twice");
  return n;
}

}  // namespace

std::int64_t healthy_cards(const std::vector<CardFacts>& cards) {
  return std::ranges::count_if(cards, &CardFacts::healthy);
}

Share held_on_unhealthy(const std::vector<CardFacts>& cards, const std::vector<kube::Pod>& pods,
                        const Contract& contract) {
  const PlacedRequests placed = placed_requests(pods, contract);
  return sum_of_unhealthy(cards, [&](const CardFacts& card) {
    Share held;
    for (const auto& [request, placement] : placed) held += request_on(card, request, placement);
    return held;
  });
}

Percent core_held(CardIndex card, const std::vector<kube::Pod>& pods, const Contract& contract) {
  const CardFacts facts{.index = card, .uuid = {}, .model = {}, .memory = {}};
  Percent held;
  for (const auto& [request, placement] : placed_requests(pods, contract))
    held += request_on(facts, request, placement).core;
  return held;
}

Share held_on_unhealthy(const std::vector<CardFacts>& cards, const std::vector<Record>& records) {
  return sum_of_unhealthy(cards, [&](const CardFacts& card) {
    Share held;
    for (const Record& record : records) {
      for (const CardGrant& grant : record.cards) {
        if (grant.uuid == card.uuid) held += grant.share;
      }
    }
    return held;
  });
}

Share offered(const std::vector<CardFacts>& cards, const Share& held) {
  Share sum = held;
  for (const CardFacts& card : cards) {
    if (card.healthy()) sum += card.capacity();
  }
  MGPU_CHECK(held.fits_in(sum), "what is held is offered");
  return sum;
}

std::vector<std::string> offered_core_ids(const std::vector<CardFacts>& cards,
                                          const std::vector<Record>& records, const Share& held) {
  constexpr int kFree = 2;
  const auto in_use = ranks_in_use(cards, records);
  const std::int64_t all = ids_to_choose_from(cards, in_use);
  const std::int64_t count = offered(cards, held).core.value();
  std::set<std::int64_t> chosen;
  for (int rank = 0; rank <= kFree; ++rank) {
    for (std::int64_t n = 0; n < all && std::ssize(chosen) < count; ++n) {
      const auto used = in_use.find(core_device_id(n));
      if ((used == in_use.end() ? kFree : used->second) == rank) chosen.insert(n);
    }
  }
  MGPU_CHECK(std::ssize(chosen) == count, "no more is held of a card than all of it");
  std::vector<std::string> ids;
  for (const std::int64_t n : chosen) ids.push_back(core_device_id(n));
  MGPU_CHECK(std::ssize(ids) == count, "an id for each percent that is offered");
  return ids;
}

std::vector<std::string> offered_memory_ids(const std::vector<CardFacts>& cards,
                                            const Share& held) {
  std::vector<std::string> ids;
  const std::int64_t mib = offered(cards, held).memory.value();
  ids.reserve(static_cast<std::size_t>(mib));
  for (std::int64_t n = 0; n < mib; ++n) ids.push_back(memory_device_id(n));
  return ids;
}

Result<void> check_memory_list(std::int64_t mib) {
  const std::size_t bytes = memory_list_bytes(mib);
  if (bytes <= kDeviceListBytesMax) return {};
  return error(fmt::format(
      "--memory-resource=device-plugin: {} MiB need as many devices, whose list has {} bytes, and "
      "kubelet accepts at most {}; use --memory-resource=node-status on this node",
      mib, bytes, kDeviceListBytesMax));
}

}  // namespace mgpu::plugin
