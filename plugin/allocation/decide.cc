#include "plugin/allocation/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::plugin {

namespace {

using Reason = RefusalReason;
using Checked = Decided<void>;

constexpr std::string_view kScheduleAgain = "; delete the pod so that it is scheduled again";

Refusal refuse(Reason reason, std::string message) {
  return {.reason = reason, .message = std::move(message), .transient = false};
}

Refusal refuse_for_now(Reason reason, std::string message) {
  return {.reason = reason, .message = std::move(message), .transient = true};
}

std::string describe(const Share& share) {
  return fmt::format("{} % and {} MiB", share.core.value(), share.memory.value());
}

std::string describe(const CardFacts& card) {
  return fmt::format("card {} ({})", card.index.value(), card.uuid.str());
}

std::string describe(std::string_view container, const PodRef& pod) {
  return fmt::format("container {} of pod {}", in_quotes(container), to_string(pod));
}

const CardFacts* find_card(const NodeState& node, CardIndex index) {
  const auto at = std::ranges::find(node.cards, index, &CardFacts::index);
  return at == node.cards.end() ? nullptr : &*at;
}

// --- use of a card -------------------------------------------------------------------------------

const CardGrant* grant_on(const Record& record, const CardUuid& card) {
  const auto at = std::ranges::find(record.cards, card, &CardGrant::uuid);
  return at == record.cards.end() ? nullptr : &*at;
}

// The share of a card that the records of one pod hold, as containers in spec order.
Share hold_of(std::vector<const Record*> records, const CardFacts& card) {
  MGPU_DEBUG_CHECK(!records.empty() && records.size() <= kGpuContainersPerPodMax,
                   "the containers are as many as a set of them can have");
  std::ranges::sort(records, {}, [](const Record* one) { return one->owner->position; });
  std::vector<ContainerRequest> containers;
  for (const Record* record : records) {
    ContainerRequest container;
    MGPU_DEBUG_CHECK(grant_on(*record, card.uuid) != nullptr, "each container is on the card");
    container.kind = record->owner->kind;
    container.per_card = grant_on(*record, card.uuid)->share;
    containers.push_back(container);
  }
  const ContainerSet all = ~ContainerSet{0} >> (64 - containers.size());
  return hold_on(card.capacity(), containers, all);
}

struct Held {
  Share share;
  std::string pods;  // "a/x, a/y"
};

// The share of a card that pods other than `pod` hold.
Held held_by_others(const NodeState& node, const CardFacts& card, const PodUid& pod) {
  std::map<PodUid, std::vector<const Record*>> by_pod;
  for (const Record& record : node.bound) {
    MGPU_DEBUG_CHECK(record.bound(), "a record that holds a share has an owner");
    if (record.owner->uid == pod || grant_on(record, card.uuid) == nullptr) continue;
    auto& records = by_pod[record.owner->uid];
    if (records.size() < kGpuContainersPerPodMax) records.push_back(&record);
  }
  Held held;
  for (const auto& [uid, records] : by_pod) {
    held.share += hold_of(records, card);
    held.pods += (held.pods.empty() ? "" : ", ") + to_string(records.front()->owner->pod);
  }
  return held;
}

// --- checks of cards -----------------------------------------------------------------------------

// A container that was started on a card before the card was reserved may start again on it.
Checked check_health(const CardFacts& card, const std::string& who, bool starts_again) {
  if (card.healthy() || (starts_again && card.reserved())) return {};
  return refuse(Reason::kUnhealthyCard,
                fmt::format("{} is assigned {}, which is not healthy: {}; it starts once the card "
                            "is healthy again, or delete the pod so that it is scheduled again",
                            who, describe(card), card.health));
}

Checked check_room(const NodeState& node, const CardFacts& card, const PodRef& pod,
                   const PodUid& uid, const Share& hold) {
  const Held held = held_by_others(node, card, uid);
  const Share capacity = card.capacity();
  if ((held.share + hold).fits_in(capacity)) return {};
  const std::string others =
      held.pods.empty() ? ""
                        : fmt::format(", of which pods {} use {}", held.pods, describe(held.share));
  return refuse_for_now(
      Reason::kFullCard,
      fmt::format("pod {} is assigned {} of {}, which has {}{}{}", to_string(pod), describe(hold),
                  describe(card), describe(capacity), others, kScheduleAgain));
}

// --- the request and its placement ---------------------------------------------------------------

Checked check_pod(const Identity& identity, const Record& record, const kube::Pod& pod,
                  const NodeState& node) {
  const std::string who = "pod " + to_string(pod.ref());
  const PodUid& expected = record.bound() ? record.owner->uid : identity.uid;
  if (!expected.empty() && expected != pod.uid()) {
    return refuse_for_now(Reason::kUnknownPod,
                          fmt::format("{} has uid {}, and the container belongs to uid {}", who,
                                      pod.metadata.uid, expected.str()));
  }
  if (pod.node_name == node.name.str()) return {};
  return refuse_for_now(Reason::kUnknownPod,
                        fmt::format("{} is on node {}, and this is node {}", who,
                                    in_quotes(pod.node_name), in_quotes(node.name.str())));
}

// The request and the placement of a pod, and which of its containers starts.
struct PodCards {
  GpuRequest request;
  Placement placement;
  std::size_t container = 0;  // an index into both
};

Decided<std::size_t> find_container(const GpuRequest& request, const Identity& identity,
                                    const Record& record, const kube::Pod& pod) {
  const auto& all = request.containers;
  const auto at = std::ranges::find(all, identity.container, &ContainerRequest::name);
  const std::string who = describe(identity.container, pod.ref());
  if (at == all.end()) {
    return refuse(Reason::kUnknownPod, who + " requests no cards, but kubelet allocated devices");
  }
  const std::int64_t core = at->per_card.core.value() * at->cards;
  if (core == record.devices.size()) return static_cast<std::size_t>(at - all.begin());
  return refuse(Reason::kUnknownContainer,
                fmt::format("{} requests {} devices, but kubelet allocated {}", who, core,
                            record.devices.size()));
}

Decided<PodCards> read_cards(const Identity& identity, const Record& record, const kube::Pod& pod,
                             const Contract& contract) {
  const std::string who = "pod " + to_string(pod.ref());
  auto request = read_request(pod, contract, MiB());
  if (!request) return refuse(Reason::kBadCards, who + ": " + request.error().message);
  const auto container = find_container(*request, identity, record, pod);
  if (!container) return container.error();
  const auto& annotations = pod.metadata.annotations;
  const auto cards = annotations.lower_bound(contract.index_prefix);
  if (cards == annotations.end() || !cards->first.starts_with(contract.index_prefix)) {
    return refuse_for_now(
        Reason::kNoCards,
        fmt::format("{} is on this node without cards: it has no annotation {}<container>, so it "
                    "was not bound by mgpu-extender; delete it, and create it without nodeName "
                    "under a scheduler that uses mgpu-extender",
                    who, contract.index_prefix));
  }
  auto placement = read_placement(pod, *request, contract);
  MGPU_DEBUG_CHECK(!placement || placement->cards_of.size() == request->containers.size(),
                   "a placement has the cards of each container");
  if (placement) return PodCards{*std::move(request), *std::move(placement), *container};
  return refuse(Reason::kBadCards,
                fmt::format("{}: {}{}", who, placement.error().message, kScheduleAgain));
}

Decided<CardGrant> grant(const PodCards& cards, CardIndex index, const kube::Pod& pod,
                         const NodeState& node, bool starts_again) {
  const ContainerRequest& container = cards.request.containers[cards.container];
  const std::string who = describe(container.name, pod.ref());
  const CardFacts* card = find_card(node, index);
  if (card == nullptr) {
    std::string indices;
    for (const CardFacts& one : node.cards) {
      indices += fmt::format("{} {}", indices.empty() ? "" : ",", one.index.value());
    }
    return refuse(
        Reason::kNoSuchCard,
        fmt::format("{} is assigned card {}, and this node has {}{}{}", who, index.value(),
                    indices.empty() ? "no cards" : "cards", indices, kScheduleAgain));
  }
  if (auto ok = check_health(*card, who, starts_again); !ok) return ok.error();
  // The containers of the pod on this card.
  ContainerSet on_card = 0;
  for (std::size_t i = 0; i < cards.placement.cards_of.size(); ++i) {
    if (std::ranges::binary_search(cards.placement.cards_of[i], index)) {
      on_card |= ContainerSet{1} << i;
    }
  }
  MGPU_DEBUG_CHECK(((on_card >> cards.container) & 1U) != 0,
                   "the container that starts is on the card");
  const Share hold = hold_on(card->capacity(), cards.request.containers, on_card);
  if (auto ok = check_room(node, *card, pod.ref(), pod.uid(), hold); !ok) return ok.error();
  // What the container may use, and has devices for.
  return CardGrant{index, card->uuid, container.on({kWholeCard, card->memory})};
}

// Whether the grants match the allocated devices, one for each percent, and are on healthy cards of
// the node in ascending order.
bool is_sound(const Record& bound, const NodeState& node) {
  std::int64_t core = 0;
  for (const CardGrant& granted : bound.cards) {
    const CardFacts* card = find_card(node, granted.index);
    if (card == nullptr || card->uuid != granted.uuid) return false;
    if (!card->healthy() && !card->reserved()) return false;
    if (!granted.share.fits_in({kWholeCard, card->memory})) return false;
    core += granted.share.core.value();
  }
  const bool ascending = std::ranges::adjacent_find(bound.cards, std::ranges::greater_equal{},
                                                    &CardGrant::index) == bound.cards.end();
  return ascending && core == bound.devices.size();
}

std::string uuids(const Record& record) {
  std::string all;
  for (const CardGrant& card : record.cards) all += (all.empty() ? "" : ", ") + card.uuid.str();
  return all;
}

struct ReasonNames {
  std::string_view label;
  std::string_view event;
};

// By the numbers of the reasons.
constexpr std::array<ReasonNames, 9> kReasonNames{{{"unknown_container", "MGPUUnknownContainer"},
                                                   {"unknown_pod", "MGPUUnknownPod"},
                                                   {"no_cards", "MGPUNoCards"},
                                                   {"bad_cards", "MGPUBadCards"},
                                                   {"no_such_card", "MGPUNoSuchCard"},
                                                   {"unhealthy_card", "MGPUCardUnhealthy"},
                                                   {"full_card", "MGPUCardFull"},
                                                   {"other_cards", "MGPUOtherCards"},
                                                   {"not_ready", "MGPUNotReady"}}};
static_assert(static_cast<std::size_t>(Reason::kNotReady) + 1 == kReasonNames.size());

}  // namespace

std::string_view to_string(RefusalReason reason) {
  return kReasonNames.at(static_cast<std::size_t>(reason)).label;
}

std::string_view event_reason(RefusalReason reason) {
  return kReasonNames.at(static_cast<std::size_t>(reason)).event;
}

void throw_exception_from_error(const Refusal& refusal, const boost::source_location&) {
  check_failed("a decision has a value", refusal.message.c_str(), std::source_location::current());
}

Decided<Record> decide(const Identity& identity, const Record& record, const kube::Pod& pod,
                       const NodeState& node, const Contract& contract) {
  if (auto ok = check_pod(identity, record, pod, node); !ok) return ok.error();
  const auto cards = read_cards(identity, record, pod, contract);
  if (!cards) return cards.error();
  const ContainerRequest& container = cards->request.containers[cards->container];
  Record bound = record;
  bound.cards.clear();
  for (const CardIndex index : cards->placement.cards_of[cards->container]) {
    const auto granted = grant(*cards, index, pod, node, record.bound());
    if (!granted) return granted.error();
    bound.cards.push_back(*granted);
  }
  bound.owner = Owner{pod.ref(), pod.uid(), container.name, container.kind,
                      static_cast<std::int32_t>(cards->container)};
  MGPU_DEBUG_CHECK(is_sound(bound, node), "a container gets cards for its devices, and no more");
  MGPU_DEBUG_CHECK(std::cmp_equal(bound.cards.size(), container.cards),
                   "a container gets as many cards as it requests");
  const bool same_cards =
      std::ranges::equal(record.cards, bound.cards, {}, &CardGrant::uuid, &CardGrant::uuid);
  if (!record.bound() || same_cards) return bound;
  return refuse(Reason::kOtherCards,
                fmt::format("{} was started with cards {}, and its annotation now names {}{}",
                            describe(container.name, pod.ref()), uuids(record), uuids(bound),
                            kScheduleAgain));
}

Decided<Record> decide_again(const Record& record, const NodeState& node) {
  MGPU_CHECK(record.bound(), "a container that was started before");
  const Owner& owner = *record.owner;
  const std::string who = describe(owner.container, owner.pod);
  for (const CardGrant& granted : record.cards) {
    const auto card = std::ranges::find(node.cards, granted.uuid, &CardFacts::uuid);
    if (card == node.cards.end()) {
      return refuse(Reason::kNoSuchCard,
                    fmt::format("{} had card {}, which this node does not have now", who,
                                granted.uuid.str()));
    }
    if (auto ok = check_health(*card, who, true); !ok) return ok.error();
    const Share hold = hold_of({&record}, *card);
    if (auto ok = check_room(node, *card, owner.pod, owner.uid, hold); !ok) {
      return ok.error();
    }
  }
  return record;
}

}  // namespace mgpu::plugin
