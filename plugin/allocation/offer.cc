#include "plugin/allocation/offer.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

namespace {

using Ids = std::set<std::string>;

bool is_healthy(const std::vector<CardFacts>& cards, const CardUuid& uuid) {
  const auto card = std::ranges::find(cards, uuid, &CardFacts::uuid);
  return card != cards.end() && card->healthy();
}

// A container that has not started yet may still get a healthy card.
bool may_run(const std::vector<CardFacts>& cards, const Record& record) {
  return std::ranges::all_of(record.cards,
                             [&](const CardGrant& grant) { return is_healthy(cards, grant.uuid); });
}

Ids held_ids(const std::vector<CardFacts>& cards, const std::vector<Record>& records,
             bool running) {
  Ids held;
  for (const Record& record : records) {
    if (may_run(cards, record) != running) continue;
    held.insert(record.devices.ids().begin(), record.devices.ids().end());
  }
  return held;
}

}  // namespace

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
  const std::int64_t all = static_cast<std::int64_t>(cards.size()) * kWholeCard.value();
  const std::int64_t offered = healthy_cards(cards) * kWholeCard.value();
  const Ids kept = held_ids(cards, records, true);
  const Ids lost = held_ids(cards, records, false);
  // Three turns: what must stay, what is free, what is held on sick cards.
  std::set<std::int64_t> chosen;
  for (int turn = 0; turn < 3; ++turn) {
    for (std::int64_t n = 0; n < all && std::ssize(chosen) < offered; ++n) {
      const std::string id = core_device_id(n);
      const int its_turn = kept.contains(id) ? 0 : lost.contains(id) ? 2 : 1;
      if (its_turn == turn) chosen.insert(n);
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
  return error("--memory-resource=device-plugin: " + std::to_string(mib) +
               " MiB are as many devices, whose list has " + std::to_string(bytes) +
               " bytes, and kubelet takes at most " + std::to_string(kDeviceListBytesMax) +
               "; use --memory-resource=node-status on this node");
}

}  // namespace mgpu::plugin
