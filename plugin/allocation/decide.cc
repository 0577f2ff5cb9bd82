#include "plugin/allocation/decide.h"

#include <algorithm>
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

constexpr std::string_view kScheduleAgain = "; delete the pod so that it is scheduled again";

Refusal refuse(Reason reason, std::string message) {
  return {.reason = reason, .message = std::move(message), .transient = false};
}

Refusal refuse_for_now(Reason reason, std::string message) {
  return {.reason = reason, .message = std::move(message), .transient = true};
}

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string amount(const Share& share) {
  return number(share.core.value()) + " % and " + number(share.memory.value()) + " MiB";
}

std::string card_name(const CardFacts& card) {
  return "card " + number(card.index.value()) + " (" + card.uuid.str() + ")";
}

const CardFacts* find_card(const NodeState& node, CardIndex index) {
  const auto at = std::ranges::find(node.cards, index, &CardFacts::index);
  return at == node.cards.end() ? nullptr : &*at;
}

std::string indices_of(const NodeState& node) {
  std::string all;
  for (const CardFacts& card : node.cards) {
    all += (all.empty() ? "" : ", ") + number(card.index.value());
  }
  return all.empty() ? "no cards" : "cards " + all;
}

// --- what is held of a card ----------------------------------------------------------------------

const CardGrant* grant_on(const Record& record, const CardUuid& card) {
  const auto at = std::ranges::find(record.cards, card, &CardGrant::uuid);
  return at == record.cards.end() ? nullptr : &*at;
}

// The records of one pod that are on the card, as containers in spec order.
Share hold_of(std::vector<const Record*> records, const CardFacts& card) {
  std::ranges::sort(records, {}, [](const Record* one) { return one->owner->position; });
  std::vector<ContainerRequest> containers;
  for (const Record* record : records) {
    ContainerRequest container;
    container.kind = record->owner->kind;
    container.per_card = grant_on(*record, card.uuid)->share;
    containers.push_back(container);
  }
  const ContainerSet all = ~ContainerSet{0} >> (64 - containers.size());
  return hold_on({kWholeCard, card.memory}, containers, all);
}

struct Held {
  Share share;
  std::string pods;  // "a/x, a/y"
};

// What pods other than `pod` hold of the card.
Held held_by_others(const NodeState& node, const CardFacts& card, const PodUid& pod) {
  std::map<PodUid, std::vector<const Record*>> by_pod;
  for (const Record& record : node.bound) {
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

// --- checks, each with its one sentence ----------------------------------------------------------

using Checked = Decided<void>;

Checked check_health(const CardFacts& card, const std::string& who) {
  if (card.healthy()) return {};
  return refuse(Reason::kUnhealthyCard, who + " is to have " + card_name(card) +
                                            ", which is not healthy: " + card.health +
                                            "; it starts once the card is healthy again, "
                                            "or delete the pod so that it is scheduled again");
}

Checked check_room(const NodeState& node, const CardFacts& card, const PodRef& pod,
                   const PodUid& uid, const Share& hold) {
  const Held held = held_by_others(node, card, uid);
  const Share capacity{kWholeCard, card.memory};
  if ((held.share + hold).fits_in(capacity)) return {};
  const std::string beside =
      held.pods.empty() ? "" : " beside the " + amount(held.share) + " of pods " + held.pods;
  return refuse_for_now(Reason::kFullCard, "pod " + to_string(pod) + " is to have " + amount(hold) +
                                               " of " + card_name(card) + ", which has " +
                                               amount(capacity) + beside +
                                               std::string(kScheduleAgain));
}

Checked check_pod(const Identity& identity, const Record& record, const kube::Pod& pod,
                  const NodeState& node) {
  const std::string who = "pod " + to_string(pod.ref());
  const PodUid& expected = record.bound() ? record.owner->uid : identity.uid;
  if (!expected.empty() && expected != pod.uid()) {
    return refuse_for_now(Reason::kUnknownPod, who + " has uid " + pod.metadata.uid +
                                                   ", and the container belongs to uid " +
                                                   expected.str());
  }
  if (pod.node_name == node.name.str()) return {};
  return refuse_for_now(Reason::kUnknownPod, who + " is on node " + in_quotes(pod.node_name) +
                                                 ", and this is node " +
                                                 in_quotes(node.name.str()));
}

// --- the steps of decide -------------------------------------------------------------------------

struct Asked {
  GpuRequest request;
  Placement placement;
  std::size_t container = 0;  // of both
};

Decided<GpuRequest> request_of(const kube::Pod& pod, const Contract& contract) {
  auto request = read_request(pod, contract, MiB());
  if (request) return std::move(*request);
  return refuse(Reason::kBadCards, "pod " + to_string(pod.ref()) + ": " + request.error().message);
}

Decided<std::size_t> container_of(const GpuRequest& request, const Identity& identity,
                                  const Record& record, const kube::Pod& pod) {
  const auto& all = request.containers;
  const auto at = std::ranges::find(all, identity.container, &ContainerRequest::name);
  const std::string who =
      "container " + in_quotes(identity.container) + " of pod " + to_string(pod.ref());
  if (at == all.end()) {
    return refuse(Reason::kUnknownPod, who + " asks for no cards, and kubelet gave it devices");
  }
  const std::int64_t core = at->per_card.core.value() * at->cards;
  if (core == record.devices.size()) return static_cast<std::size_t>(at - all.begin());
  return refuse(Reason::kUnknownContainer, who + " asks for " + number(core) +
                                               " devices, and kubelet gave it " +
                                               number(record.devices.size()));
}

bool carries_no_cards(const kube::Pod& pod, const Contract& contract) {
  const auto& annotations = pod.metadata.annotations;
  const auto at = annotations.lower_bound(contract.index_prefix);
  return at == annotations.end() || !at->first.starts_with(contract.index_prefix);
}

Decided<Placement> placement_of(const kube::Pod& pod, const GpuRequest& request,
                                const Contract& contract) {
  const std::string who = "pod " + to_string(pod.ref());
  if (carries_no_cards(pod, contract)) {
    return refuse_for_now(
        Reason::kNoCards,
        who + " is on this node without cards: it has no annotation " + contract.index_prefix +
            "<container>, so it was not bound by mgpu-extender; delete it, and create it "
            "without nodeName under a scheduler that uses mgpu-extender");
  }
  auto placement = read_placement(pod, request, contract);
  if (placement) return std::move(*placement);
  return refuse(Reason::kBadCards,
                who + ": " + placement.error().message + std::string(kScheduleAgain));
}

Decided<Asked> asked_of(const Identity& identity, const Record& record, const kube::Pod& pod,
                        const Contract& contract) {
  auto request = request_of(pod, contract);
  if (!request) return request.error();
  const auto container = container_of(*request, identity, record, pod);
  if (!container) return container.error();
  auto placement = placement_of(pod, *request, contract);
  if (!placement) return placement.error();
  return Asked{std::move(*request), std::move(*placement), *container};
}

// What the whole pod holds of one card.
Share pod_hold(const Asked& asked, const CardFacts& card) {
  ContainerSet on = 0;
  for (std::size_t i = 0; i < asked.placement.cards_of.size(); ++i) {
    const auto& cards = asked.placement.cards_of[i];
    if (std::ranges::binary_search(cards, card.index)) on |= ContainerSet{1} << i;
  }
  return hold_on({kWholeCard, card.memory}, asked.request.containers, on);
}

Decided<CardGrant> grant(const Asked& asked, CardIndex index, const kube::Pod& pod,
                         const NodeState& node) {
  const ContainerRequest& container = asked.request.containers[asked.container];
  const std::string who =
      "container " + in_quotes(container.name) + " of pod " + to_string(pod.ref());
  const CardFacts* card = find_card(node, index);
  if (card == nullptr) {
    return refuse(Reason::kNoSuchCard, who + " is to have card " + number(index.value()) +
                                           ", and this node has " + indices_of(node) +
                                           std::string(kScheduleAgain));
  }
  if (auto ok = check_health(*card, who); !ok) return ok.error();
  if (auto ok = check_room(node, *card, pod.ref(), pod.uid(), pod_hold(asked, *card)); !ok) {
    return ok.error();
  }
  return CardGrant{index, card->uuid, container.on({kWholeCard, card->memory})};
}

bool same_cards(const Record& before, const Record& now) {
  return std::ranges::equal(before.cards, now.cards, {}, &CardGrant::uuid, &CardGrant::uuid);
}

// What was granted is what kubelet gave devices for, one device for each percent, on cards that the
// node has, in the order that the record promises.
bool is_sound(const Record& bound, const NodeState& node) {
  std::int64_t core = 0;
  for (const CardGrant& granted : bound.cards) {
    const CardFacts* card = find_card(node, granted.index);
    if (card == nullptr || card->uuid != granted.uuid || !card->healthy()) return false;
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

}  // namespace

void throw_exception_from_error(const Refusal& refusal, const boost::source_location&) {
  check_failed("a decision has a value", refusal.message.c_str(), std::source_location::current());
}

std::string_view label(RefusalReason reason) {
  switch (reason) {
    case Reason::kUnknownContainer:
      return "unknown_container";
    case Reason::kUnknownPod:
      return "unknown_pod";
    case Reason::kNoCards:
      return "no_cards";
    case Reason::kBadCards:
      return "bad_cards";
    case Reason::kNoSuchCard:
      return "no_such_card";
    case Reason::kUnhealthyCard:
      return "unhealthy_card";
    case Reason::kFullCard:
      return "full_card";
    case Reason::kOtherCards:
      return "other_cards";
    case Reason::kNotReady:
      return "not_ready";
  }
  return "unknown";
}

std::string_view event_reason(RefusalReason reason) {
  switch (reason) {
    case Reason::kUnknownContainer:
      return "MGPUUnknownContainer";
    case Reason::kUnknownPod:
      return "MGPUUnknownPod";
    case Reason::kNoCards:
      return "MGPUNoCards";
    case Reason::kBadCards:
      return "MGPUBadCards";
    case Reason::kNoSuchCard:
      return "MGPUNoSuchCard";
    case Reason::kUnhealthyCard:
      return "MGPUCardUnhealthy";
    case Reason::kFullCard:
      return "MGPUCardFull";
    case Reason::kOtherCards:
      return "MGPUOtherCards";
    case Reason::kNotReady:
      return "MGPUNotReady";
  }
  return "MGPURefused";
}

Decided<Record> decide(const Identity& identity, const Record& record, const kube::Pod& pod,
                       const NodeState& node, const Contract& contract) {
  if (auto ok = check_pod(identity, record, pod, node); !ok) return ok.error();
  const auto asked = asked_of(identity, record, pod, contract);
  if (!asked) return asked.error();
  const ContainerRequest& container = asked->request.containers[asked->container];
  Record bound = record;
  bound.cards.clear();
  for (const CardIndex index : asked->placement.cards_of[asked->container]) {
    const auto granted = grant(*asked, index, pod, node);
    if (!granted) return granted.error();
    bound.cards.push_back(*granted);
  }
  bound.owner = Owner{pod.ref(), pod.uid(), container.name, container.kind,
                      static_cast<std::int32_t>(asked->container)};
  MGPU_DEBUG_CHECK(is_sound(bound, node), "a container gets cards for its devices, and no more");
  if (!record.bound() || same_cards(record, bound)) return bound;
  return refuse(Reason::kOtherCards, "container " + in_quotes(container.name) + " of pod " +
                                         to_string(pod.ref()) + " was started with cards " +
                                         uuids(record) + ", and its annotation now names " +
                                         uuids(bound) + std::string(kScheduleAgain));
}

Decided<Record> decide_again(const Record& record, const NodeState& node) {
  MGPU_CHECK(record.bound(), "a container that was started before");
  const Owner& owner = *record.owner;
  const std::string who =
      "container " + in_quotes(owner.container) + " of pod " + to_string(owner.pod);
  for (const CardGrant& granted : record.cards) {
    const auto card = std::ranges::find(node.cards, granted.uuid, &CardFacts::uuid);
    if (card == node.cards.end()) {
      return refuse(Reason::kNoSuchCard, who + " had card " + granted.uuid.str() +
                                             ", which this node does not have now");
    }
    if (auto ok = check_health(*card, who); !ok) return ok.error();
    if (auto ok = check_room(node, *card, owner.pod, owner.uid, granted.share); !ok) {
      return ok.error();
    }
  }
  return record;
}

}  // namespace mgpu::plugin
