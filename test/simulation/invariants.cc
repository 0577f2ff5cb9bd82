#include "test/simulation/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/simulation/plan.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

// The reasons of the extender for which a node has no room.
constexpr const char* kNoRoom = "node(s) had";
// The cards were freed for a pod of higher priority.
constexpr const char* kKept = "kept for another pod";
// The extender has seen what happened to a card.
constexpr Duration kCardsSeen{20'000};
// A group is bound within this time from the first filter of a pod.
constexpr Duration kGroupBinds{30'000};
// What filter has answered for a pod that waits in Permit is kept until it is nominated.
constexpr Duration kPromise{1'000};
// The extender has seen what happened to a pod, and has evicted others because of it.
constexpr Duration kSeen{3'000};
// The extender keeps cards for pods of a group, and then for one that waited for them, no longer.
constexpr Duration kKeeps{90'000};
constexpr Share kCapacity{kWholeCard, MiB(test::kCardMemory)};

// The containers of the placement that are on this card.
ContainerSet on_card(const Placement& placement, CardIndex card) {
  ContainerSet set = 0;
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    if (std::ranges::binary_search(placement.cards_of[i], card)) set |= ContainerSet{1} << i;
  }
  return set;
}

// What a container has of each of its cards. Their number may have been edited since the pod was
// bound.
Share share_of_card(const ContainerRequest& container, std::size_t cards) {
  if (container.whole) return kCapacity;
  const auto number = static_cast<std::int64_t>(cards);
  return {Percent(container.per_card.core.value() * container.cards / number),
          MiB(container.per_card.memory.value() * container.cards / number)};
}

}  // namespace

std::string cards_text(const std::vector<CardIndex>& cards) {
  std::string text;
  for (const CardIndex card : cards)
    text += (text.empty() ? "" : ",") + std::to_string(card.value());
  return text;
}

Invariants::Invariants(kube::MemoryApiServer& server, const Contract& contract, bool has_policies,
                       bool is_calm)
    : executor_(server.executor()),
      contract_(contract),
      has_policies_(has_policies),
      is_calm_(is_calm) {
  kube::StreamEvents events;
  events.on_open = [](kube::Encoding) {};
  events.on_line = [this](std::string_view line) { on_line(line); };
  events.on_end = [this](const kube::Response&) { violate("the watch of the checks ended"); };
  kube::Request request;
  request.target = "/api/v1/pods?watch=1";
  stream_ = server.stream(std::move(request), std::move(events));
}

void Invariants::on_line(std::string_view line) {
  const auto read = kube::read_watch_line(line);
  if (!read) return violate("a line of the watch cannot be read: " + read.error().message);
  if (read->kind == kube::WatchLine::Kind::kBookmark) return;
  const auto pod = kube::read_pod(read->object);
  if (!pod) return violate("a pod of the watch cannot be read: " + pod.error().message);
  note_in_digest(fmt::format("{} {} {} {}", executor_.now().time_since_epoch().count(),
                             pod->uid().str(), pod->metadata.resource_version, pod->node_name));
  on_pod(*pod, read->kind == kube::WatchLine::Kind::kDeleted);
}

// FNV-1a.
void Invariants::note_in_digest(std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const char c : text) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * kPrime;
}

void Invariants::note_in_group(const kube::Pod& pod, bool deleted) {
  const auto of = group_of(pod);
  if (!of) return;
  GroupState& group = groups_[of->name];
  group.min_count = of->min_count;
  group.priority = pod.priority;
  group.by_label = of->by_label;
  group_of_[pod.uid()] = of->name;
  if (group.pods.contains(pod.uid())) {
    // There are not enough pods for the group any more.
    group.lost |= !group.is_bound() && (deleted || pod.finished() || pod.metadata.being_deleted);
    return;
  }
  if (!pod.node_name.empty()) {
    group.pods[pod.uid()] = pod.metadata.name;
    group.waiting.erase(pod.metadata.name);
    if (!group.first_bound) group.first_bound = executor_.now();
    promised_.erase(pod.uid());
  } else if (deleted) {
    group.waiting.erase(pod.metadata.name);
    group.last_deleted = executor_.now();
  } else {
    group.waiting.insert(pod.metadata.name);
    const auto promise = promised_.find(pod.uid());
    if (promise != promised_.end())
      promise->second.shown = pod.nominated_node == promise->second.node;
  }
}

int Invariants::groups_bound() const {
  return static_cast<int>(
      std::ranges::count_if(groups_, [](const auto& group) { return group.second.is_bound(); }));
}

int Invariants::groups_in_part() const {
  return static_cast<int>(
      std::ranges::count_if(groups_, [](const auto& group) { return group.second.in_part(); }));
}

void Invariants::note_scheduler_killed() {
  for (auto& [name, group] : groups_) group.lost |= group.process != 0;
}

bool Invariants::is_excused(const std::string& node) const {
  const auto changed = cards_changed_.find(node);
  return changed != cards_changed_.end() && changed->second + kCardsSeen > executor_.now();
}

void Invariants::note_taken(const kube::Pod& pod) {
  for (auto& [uid, promise] : promised_) {
    GroupState& group = groups_.at(group_of_.at(uid));
    if (promise.node != pod.node_name || pod.priority <= group.priority) continue;
    promise.taken = true;
    group.lost |= group.process != 0;
  }
}

// Its cards are taken before the API server shows it bound.
void Invariants::note_binding(const PodUid& uid, const std::string& node) {
  for (auto& [member, promise] : promised_) {
    const std::int32_t priority = groups_.at(group_of_.at(member)).priority;
    promise.taken |= promise.node == node && priorities_.at(uid) > priority;
  }
}

void Invariants::report_answer(const PodUid& uid, const ExtenderAnswer& answer) {
  for (auto& [member, promise] : promised_) promise.unseen |= answer.watches_are_late;
  for (auto& [name, group] : groups_)
    group.lost |= group.process != 0 && group.process != answer.process;
  const auto reply = Json::parse(answer.body, nullptr, false);
  const Json failed = reply.is_object() ? reply.value("FailedNodes", Json()) : Json();
  if (answer.verb == "filter" && failed.is_object())
    refused_[uid] = {executor_.now(), failed.get<std::map<std::string, std::string>>()};
  const auto of = group_of_.find(uid);
  if (of == group_of_.end()) return;
  GroupState& group = groups_.at(of->second);
  if (group.process != 0) group.lost |= answer.status != 200;
  const Json nodes = reply.is_object() ? reply.value("NodeNames", Json()) : Json();
  if (answer.verb == "filter" && nodes.is_array() && !nodes.empty()) {
    promised_[uid] = {.node = nodes.front().get<std::string>(),
                      .since = executor_.now(),
                      .process = answer.process,
                      .unseen = answer.watches_are_late};
    if (group.process == 0) group.filtered_by = answer.process;
  }
  if (answer.verb == "bind") note_bind_answer(uid, group, answer);
}

// What filter has promised to a pod of the group is there when it is bound.
void Invariants::note_bind_answer(const PodUid& uid, GroupState& group,
                                  const ExtenderAnswer& answer) {
  if (group.process == 0) {
    group.process = answer.process;
    group.lost = answer.status != 200 || answer.process != group.filtered_by;
  }
  const auto promised = promised_.find(uid);
  if (promised == promised_.end()) return;
  const auto& [node, since, process, shown, taken, unseen] = promised->second;
  if (group.by_label) group.lost |= (!shown || unseen) && executor_.now() - since > kPromise;
  group.lost |= process != answer.process || taken || is_excused(node) ||
                executor_.now() < scheduler_stops_until_ ||
                answer.body.find(kKept) != std::string::npos;
  if (group.lost || answer.body.find(kNoRoom) == std::string::npos) return;
  violate(fmt::format("filter answers node {} for pod {} of a group, and bind {} s later: {}", node,
                      uid.str(), std::chrono::duration<double>(executor_.now() - since).count(),
                      answer.body));
}

void Invariants::check_groups() {
  for (const auto& [name, group] : groups_) {
    if (!group.in_part() || group.lost) continue;
    if (group.last_deleted && *group.last_deleted + kGroupBinds >= *group.first_bound) continue;
    std::string waiting;
    for (const std::string& pod : group.waiting) waiting += " " + pod;
    violate(fmt::format("group {} is bound in part: it needs {} pods, {} are bound, and{} wait",
                        name, group.min_count, group.pods.size(), waiting));
  }
}

void Invariants::report_event(const std::string& event) {
  const Json read = Json::parse(event);
  if (read.value("reason", "") != "Preempted") return;
  ++evicted_;
  const PodUid victim(read["involvedObject"].value("uid", ""));
  const std::string text = read.value("message", "");
  const std::string by = text.substr(0, text.find(" on node "));
  const std::string preemptor = by.substr(by.rfind(' ') + 1);
  const auto group = groups_.find(preemptor);
  const std::int32_t priority =
      group != groups_.end() ? group->second.priority : priorities_.at(PodUid(preemptor));
  if (never_preempt_.contains(preemptor))
    violate(fmt::format("pod {} is evicted for {}, which never preempts", victim.str(), preemptor));
  if (priorities_.at(victim) >= priority) {
    violate(fmt::format("pod {} of priority {} is evicted for {} of priority {}", victim.str(),
                        priorities_.at(victim), preemptor, priority));
  }
  const auto pod = unbound_.find(PodUid(preemptor));
  if (is_calm_ && pod != unbound_.end()) check_need(victim, pod->second);
}

void Invariants::check_need(const PodUid& victim, const kube::Pod& preemptor) {
  for (const auto& [node, why] : refused_[preemptor.uid()].nodes) {
    if (is_kept(node, preemptor) || !fits(preemptor, node)) continue;
    violate(
        fmt::format("pod {} is evicted for {}, which fits node {} once the pods that are "
                    "terminating have ended",
                    victim.str(), preemptor.uid().str(), node));
  }
  BoundPod& evicted = bound_.at(victim);
  evicted.evicted_for = preemptor.uid().str();
  if (is_kept(evicted.node, preemptor)) return;
  for (const auto& [uid, other] : bound_) {
    if (uid == victim || other.evicted_for != evicted.evicted_for || other.node != evicted.node ||
        !other.leaves || *other.leaves + kSeen <= executor_.now())
      continue;
    if (!fits(preemptor, evicted.node, uid)) continue;
    violate(fmt::format("pod {} is evicted for {}, for which the eviction of others suffices",
                        uid.str(), evicted.evicted_for));
  }
}

// What is kept there for others is not known.
bool Invariants::is_kept(const std::string& node, const kube::Pod& preemptor) const {
  const Instant now = executor_.now();
  const auto other = [&](const PodUid& uid) {
    return uid != preemptor.uid() && priorities_.at(uid) >= preemptor.priority;
  };
  return std::ranges::any_of(nominated_,
                             [&](const auto& entry) {
                               const auto& [of, until] = entry.second;
                               return other(entry.first) && of == node && now < until + kSeen;
                             }) ||
         std::ranges::any_of(promised_,
                             [&](const auto& entry) {
                               const Promise& promise = entry.second;
                               return other(entry.first) && promise.node == node &&
                                      now < promise.since + kKeeps;
                             }) ||
         std::ranges::any_of(refused_, [&](const auto& entry) {
           const auto& [at, nodes] = entry.second;
           const auto on = nodes.find(node);
           return now < at + kKeeps && on != nodes.end() &&
                  on->second.find(kKept) != std::string::npos;
         });
}

// With the cards of the pods that are left once those have ended that were evicted for this one,
// but for `spared`, or that have been terminating for a while.
bool Invariants::fits(const kube::Pod& pod, const std::string& node, const PodUid& spared) const {
  const auto request = read_containers(pod, contract_, MiB());
  if (!request) return false;
  extender::Node left;
  left.name = NodeName(node);
  left.cards.resize(kCardsPerNode);
  for (int card = 0; card < kCardsPerNode; ++card) {
    left.cards[static_cast<std::size_t>(card)].index = CardIndex(card);
    left.cards[static_cast<std::size_t>(card)].capacity = kCapacity;
  }
  for (const auto& [uid, bound] : bound_) {
    if (bound.node != node) continue;
    const bool evicted = bound.evicted_for == pod.uid().str() && uid != spared;
    if (evicted || (bound.leaves && *bound.leaves + kSeen <= executor_.now())) continue;
    if (!bound.placement) return false;
    for (extender::Card& card : left.cards) {
      const ContainerSet held = on_card(*bound.placement, card.index);
      if (held != 0) card.used += hold_on(kCapacity, bound.request.containers, held);
    }
  }
  extender::SearchBudget budget{extender::kFilterStepsMax};
  return !extender::why_not(left, *request, budget);
}

void Invariants::on_pod(const kube::Pod& pod, bool deleted) {
  priorities_[pod.uid()] = pod.priority;
  note_in_group(pod, deleted);
  const PodUid uid = pod.uid();
  const auto group = group_of_.find(uid);
  if (pod.never_preempts)
    never_preempt_.insert(group == group_of_.end() ? uid.str() : group->second);
  note_nominated(pod, deleted);
  const auto at = bound_.find(uid);
  if (at != bound_.end()) {
    if (deleted || pod.finished()) at->second.ended = true;
    if ((at->second.ended || pod.metadata.being_deleted) && !at->second.leaves)
      at->second.leaves = executor_.now();
    return note_cards(pod, at->second);
  }
  if (deleted) return;
  if (!pod.node_name.empty()) note_taken(pod);
  if (pod.node_name.empty()) {
    seen_unbound_.insert(uid);
    if (pod.metadata.annotations.contains(contract_.assumed)) {
      violate("pod " + to_string(pod.ref()) + " has cards and is not bound");
    }
    return;
  }
  note_bound(pod, seen_unbound_.contains(uid));
}

void Invariants::note_nominated(const kube::Pod& pod, bool deleted) {
  const PodUid uid = pod.uid();
  unbound_.erase(uid);
  const bool pending = !deleted && pod.node_name.empty();
  if (pending) unbound_.emplace(uid, pod);
  if (!pod.node_name.empty()) refused_.erase(uid);
  const auto before = nominated_.find(uid);
  if (pending && !pod.nominated_node.empty()) {
    nominated_[uid] = {pod.nominated_node, Instant::max() - kSeen};
  } else if (before != nominated_.end()) {
    before->second.second = std::min(before->second.second, executor_.now());
  }
}

void Invariants::note_bound(const kube::Pod& pod, bool by_binding) {
  BoundPod& bound = bound_[pod.uid()];
  bound.ref = pod.ref();
  bound.node = pod.node_name;
  bound.since = executor_.now();
  bound.by_binding = by_binding;
  note_cards(pod, bound);
  const auto request = read_containers(pod, contract_, MiB());
  if (!request || request->empty()) {
    if (by_binding) violate("pod " + to_string(pod.ref()) + " is bound with an unreadable request");
    return;
  }
  bound.request = *request;
  const auto placement = read_placement(pod, *request, contract_);
  if (placement) bound.placement = *placement;
  if (!by_binding) return;
  if (!placement) {
    return violate(fmt::format("pod {} is bound to node {} without its cards: {}",
                               to_string(pod.ref()), pod.node_name, placement.error().message));
  }
  check_capacity(pod.node_name);
}

std::optional<Instant> Invariants::bound_at(const PodUid& uid) const {
  const auto at = bound_.find(uid);
  return at == bound_.end() ? std::nullopt : std::optional<Instant>(at->second.since);
}

void Invariants::note_cards(const kube::Pod& pod, BoundPod& bound) {
  for (const kube::Container& container : pod.containers) {
    const auto at = pod.metadata.annotations.find(contract_.index_key(container.name));
    if (at == pod.metadata.annotations.end()) continue;
    auto& named = bound.cards_named[container.name];
    named.insert(at->second);
    if (!has_policies_ || named.size() == 1) continue;
    violate(fmt::format("the cards of container {} of pod {} have changed to {}", container.name,
                        to_string(pod.ref()), at->second));
  }
}

void Invariants::report_bound(const PodUid& uid, const std::string& node) {
  const auto at = bound_.find(uid);
  if (at != bound_.end() && at->second.node == node) return;
  violate(
      fmt::format("kube-scheduler gets the response that the pod with uid {} is bound to node {}",
                  uid.str(), node));
}

void Invariants::check_capacity(const std::string& node) {
  std::map<CardIndex, Share> used;
  std::map<CardIndex, std::string> pods;
  for (const auto& [uid, pod] : bound_) {
    if (pod.node != node || pod.ended || !pod.by_binding || !pod.placement) continue;
    std::map<CardIndex, ContainerSet> cards;
    for (const auto& of_container : pod.placement->cards_of) {
      for (const CardIndex card : of_container) cards[card] = on_card(*pod.placement, card);
    }
    for (const auto& [card, set] : cards) {
      used[card] += hold_on(kCapacity, pod.request.containers, set);
      pods[card] += " " + to_string(pod.ref);
    }
  }
  for (const auto& [card, share] : used) {
    if (share.fits_in(kCapacity)) continue;
    violate(fmt::format("card {} of node {} has {} % and {} MiB bound, by the pods{}", card.value(),
                        node, share.core.value(), share.memory.value(), pods[card]));
  }
}

void Invariants::start_container(const PodUid& uid, const std::string& container,
                                 const std::string& node, const std::vector<CardIndex>& cards) {
  const auto at = bound_.find(uid);
  if (at == bound_.end()) return violate("a container of an unknown pod starts: uid " + uid.str());
  BoundPod& pod = at->second;
  const auto of = std::ranges::find(pod.request.containers, container, &ContainerRequest::name);
  if (of == pod.request.containers.end()) {
    return violate(fmt::format("container {} of pod {} starts with devices and requests no cards",
                               container, to_string(pod.ref)));
  }
  const auto named = pod.cards_named.find(container);
  if (named == pod.cards_named.end() || !named->second.contains(cards_text(cards))) {
    violate(
        fmt::format("container {} of pod {} starts on cards {} of node {}, which its annotation "
                    "does not name",
                    container, to_string(pod.ref), cards_text(cards), node));
  }
  const auto& first = pod.cards_started.try_emplace(container, cards).first->second;
  if (first != cards) {
    violate(fmt::format("container {} of pod {} starts again on cards {} of node {}, and had {}",
                        container, to_string(pod.ref), cards_text(cards), node, cards_text(first)));
  }
  for (const CardIndex card : cards) {
    auto& running = running_[{node, card}];
    std::erase_if(running, [&](const Running& other) {
      return other.uid == uid && other.container == container;
    });
    running.push_back({uid, container, share_of_card(*of, cards.size())});
    Share used;
    for (const Running& other : running) used += other.share;
    if (used.fits_in(kCapacity)) continue;
    violate(fmt::format("containers on card {} of node {} have {} % and {} MiB", card.value(), node,
                        used.core.value(), used.memory.value()));
  }
}

void Invariants::end_containers(const PodUid& uid) {
  for (auto& [card, running] : running_) {
    std::erase_if(running, [&](const Running& other) { return other.uid == uid; });
  }
}

}  // namespace mgpu::simulation
