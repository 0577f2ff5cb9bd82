#include "plugin/allocation/offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

std::int64_t healthy_memory(const std::vector<CardFacts>& cards) {
  std::int64_t sum = 0;
  for (const CardFacts& card : cards) sum += card.healthy() ? card.memory.value() : 0;
  return sum;
}

std::int64_t healthy_cards(const std::vector<CardFacts>& cards) {
  return std::ranges::count_if(cards, &CardFacts::healthy);
}

std::vector<std::string> offered_core_ids(const std::vector<CardFacts>& cards,
                                          const std::vector<Record>& records) {
  const auto is_healthy = [&](const CardGrant& grant) {
    const auto card = std::ranges::find(cards, grant.uuid, &CardFacts::uuid);
    return card != cards.end() && card->healthy();
  };
  // Ids in use. A container that has not started yet may still get a healthy card.
  std::set<std::string> on_healthy_cards;
  std::set<std::string> on_unhealthy_cards;
  for (const Record& record : records) {
    auto& ids =
        std::ranges::all_of(record.cards, is_healthy) ? on_healthy_cards : on_unhealthy_cards;
    ids.insert(record.devices.ids().begin(), record.devices.ids().end());
  }
  const std::int64_t all = std::ssize(cards) * kWholeCard.value();
  const std::int64_t offered = healthy_cards(cards) * kWholeCard.value();
  std::set<std::int64_t> chosen;
  // Ids on healthy cards come first, then free ones, then those on unhealthy cards.
  for (int pass = 0; pass < 3; ++pass) {
    for (std::int64_t n = 0; n < all && std::ssize(chosen) < offered; ++n) {
      const std::string id = core_device_id(n);
      const int rank = on_healthy_cards.contains(id) ? 0 : on_unhealthy_cards.contains(id) ? 2 : 1;
      if (rank == pass) chosen.insert(n);
    }
  }
  MGPU_CHECK(std::ssize(chosen) == offered, "a hundred ids for each healthy card");
  std::vector<std::string> ids;
  for (const std::int64_t n : chosen) ids.push_back(core_device_id(n));
  return ids;
}

std::vector<std::string> offered_memory_ids(const std::vector<CardFacts>& cards) {
  std::vector<std::string> ids;
  const std::int64_t mib = healthy_memory(cards);
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
