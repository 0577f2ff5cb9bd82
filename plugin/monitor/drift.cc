#include "plugin/monitor/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/text.h"

namespace mgpu::plugin {
namespace {

constexpr std::string_view kDeleteAndSchedule =
    "delete the pod, so that it is created and scheduled again";
// The longest name of a pod (RFC 1123 subdomain).
constexpr std::size_t kShownMax = 253;
// The name of nvidia-cuda-mps-server, as the kernel cuts it.
constexpr std::string_view kMpsServer = "nvidia-cuda-mps";

// --- cards of containers -------------------------------------------------------------------------

// The extender refuses a list that the contract does not permit, such as "2,0".
bool names_cards_of(const std::string& annotation, const Record& record) {
  const auto indices = parse_card_indices(annotation);
  return indices && std::ranges::equal(*indices, record.cards, {}, {}, &CardGrant::index);
}

// "card 0", "cards 0,2"
std::string describe_cards(const Record& record) {
  std::string indices;
  for (const CardGrant& card : record.cards) {
    indices += fmt::format("{}{}", indices.empty() ? "" : ",", card.index.value());
  }
  return (record.cards.size() == 1 ? "card " : "cards ") + indices;
}

const std::string* find_annotation(const kube::Pod& pod, std::string_view container,
                                   const Contract& contract) {
  const auto& annotations = pod.metadata.annotations;
  const auto at = annotations.find(contract.index_key(container));
  return at == annotations.end() ? nullptr : &at->second;
}

using ContainerKey = std::pair<PodUid, std::string>;

std::map<ContainerKey, const Record*> by_container(const std::vector<Record>& records) {
  std::map<ContainerKey, const Record*> found;
  for (const Record& record : records) {
    if (record.bound()) found[{record.owner->uid, record.owner->container}] = &record;
  }
  return found;
}

void set_card(Drift& drift, const Record& record) {
  if (record.cards.size() != 1) return;
  drift.card = record.cards.front().uuid;
  drift.index = record.cards.front().index;
}

// --- containers without devices ------------------------------------------------------------------

// The containers that kubelet's PodResources lists while they run: all but ordinary init
// containers.
std::vector<const kube::Container*> listable(const kube::Pod& pod) {
  std::vector<const kube::Container*> all;
  for (const kube::Container& one : pod.init_containers) {
    if (one.restart_always) all.push_back(&one);
  }
  for (const kube::Container& one : pod.containers) all.push_back(&one);
  return all;
}

// Kubelet may know what its list does not show: it lists nothing while it starts, and old versions
// list no sidecars. What the API server reports of the pod may be old.
bool is_contradicted(const DriftFacts& facts, const PodUid& pod, const std::string& container) {
  const auto checkpointed = facts.checkpointed();
  if (!checkpointed || checkpointed->contains({pod, container})) return true;
  const auto with_processes = facts.with_processes();
  return with_processes && !with_processes->empty() && !with_processes->contains(pod);
}

Drift without_devices(const kube::Pod& pod, const kube::Container& container, const Record* record,
                      const std::string* annotation, const Contract& contract) {
  Drift drift{.kind = DriftKind::kPodWithoutDevices,
              .pod = pod.ref(),
              .uid = pod.uid(),
              .container = container.name};
  if (record != nullptr) set_card(drift, *record);
  const std::string who = describe_container(container.name, pod.ref());
  const std::string has = record != nullptr
                              ? "runs on " + describe_cards(*record)
                              : fmt::format("has cards {} by its annotation",
                                            annotation == nullptr ? "" : in_quotes(*annotation));
  drift.message =
      container.limits.contains(contract.core_resource)
          ? fmt::format(
                "{} {}, but kubelet lists no devices of it, and may give its devices to "
                "another container; {}",
                who, has, kDeleteAndSchedule)
          : fmt::format(
                "{} {}, but requests no {}, so that kubelet gave it no devices and the "
                "cards are not counted; delete the pod, and create it with a request",
                who, has, contract.core_resource);
  return drift;
}

// --- processes without a share -------------------------------------------------------------------

// Who holds shares of a card: by the records, and for a container without a record by its
// annotation, because the record may be lost, which is another problem.
class Shares {
 public:
  Shares(const DriftFacts& facts, const Contract& contract) : facts_(facts), contract_(contract) {
    for (const Record& record : facts.records) {
      if (!record.bound()) continue;
      recorded_.insert({record.owner->uid, record.owner->container});
      for (const CardGrant& card : record.cards) {
        granted_[{record.owner->uid, card.uuid}].insert(record.owner->container);
      }
    }
  }

  // The name of the container of the process; empty: not known yet.
  std::string container_of(const kube::Pod& pod, const CgroupContainer& container) const {
    for (const kube::ContainerStatus& status : pod.container_statuses) {
      if (bare_container_id(status) == container.container_id) return status.name;
    }
    return {};
  }

  // A process of a container that is not known belongs to the pod's share of the card.
  bool holds(const PodUid& uid, const std::string& container, const CardFacts& card) const {
    const auto granted = granted_.find({uid, card.uuid});
    if (granted != granted_.end() && (container.empty() || granted->second.contains(container)))
      return true;
    const kube::Pod* const pod = find_pod(facts_, uid);
    if (pod == nullptr) return false;
    const auto has_card = [&](const kube::Container& one) {
      return (container.empty() || one.name == container) &&
             has_by_annotation(*pod, one.name, card.index);
    };
    return std::ranges::any_of(pod->containers, has_card) ||
           std::ranges::any_of(pod->init_containers, has_card);
  }

 private:
  // Only of the containers of the pod: anybody who may change the pod can write an annotation with
  // another name.
  bool has_by_annotation(const kube::Pod& pod, const std::string& name, CardIndex card) const {
    if (recorded_.contains({pod.uid(), name})) return false;
    const std::string* const annotation = find_annotation(pod, name, contract_);
    if (annotation == nullptr) return false;
    const auto indices = parse_card_indices(*annotation);
    return indices && std::ranges::binary_search(*indices, card);
  }

  const DriftFacts& facts_;
  const Contract& contract_;
  std::map<std::pair<PodUid, CardUuid>, std::set<std::string>> granted_;  // to containers
  std::set<ContainerKey> recorded_;
};

// The plugin, and the servers of MPS, which run outside of pods or beside the plugin. A program can
// choose its name, so the name of a process in the pod of anybody else says nothing.
bool is_own(const ProcessSample& process, const OwnProcesses& own, const kube::Pod* pod) {
  if (process.pid == own.pid) return true;
  if (process.container && process.container->uid == own.pod) return true;
  if (process.program != kMpsServer) return false;
  if (!process.container) return true;
  return pod != nullptr && !own.name_space.empty() && pod->metadata.name_space == own.name_space;
}

struct UnallocatedProcesses {
  const CardFacts* card = nullptr;
  const kube::Pod* pod = nullptr;
  std::string container;
  std::vector<const ProcessSample*> processes;
};

std::string describe_processes(const std::vector<const ProcessSample*>& processes) {
  const ProcessSample& first = *processes.front();
  const std::string one = fmt::format("{} ({})", first.pid, in_quotes(first.program));
  if (processes.size() == 1) return "process " + one;
  return fmt::format("{} processes, such as {},", processes.size(), one);
}

Drift without_share(const PodUid& uid, const UnallocatedProcesses& found) {
  Drift drift{.kind = DriftKind::kProcessWithoutShare,
              .uid = uid,
              .container = found.container,
              .card = found.card->uuid,
              .index = found.card->index};
  if (found.pod != nullptr) drift.pod = found.pod->ref();
  const bool one = found.processes.size() == 1;
  const std::string who = describe_processes(found.processes);
  const std::string card = describe_card(found.card->index, found.card->uuid);
  if (uid.empty()) {
    drift.message = fmt::format(
        "{} on {} {} to no pod, and {} what pods hold of it; end {}, or reserve the card with a "
        "profile",
        who, card, one ? "belongs" : "belong", one ? "uses" : "use", one ? "it" : "them");
    return drift;
  }
  const std::string owner =
      found.pod == nullptr
          ? fmt::format("a pod with uid {} that the API server does not know", in_quotes(uid.str()))
      : found.container.empty() ? "pod " + shown(to_string(found.pod->ref()))
                                : describe_container(found.container, found.pod->ref());
  drift.message = fmt::format(
      "{} of {} {} {} without a share of it; delete the pod, and create it with a request and "
      "without other access to the cards: privileged, a volume of /dev, or NVIDIA_VISIBLE_DEVICES",
      who, owner, one ? "uses" : "use", card);
  return drift;
}

}  // namespace

std::string_view label(DriftKind kind) {
  switch (kind) {
    case DriftKind::kPodWithoutDevices:
      return "PodWithoutDevices";
    case DriftKind::kProcessWithoutShare:
      return "ProcessWithoutShare";
    case DriftKind::kUnusedShare:
      return "UnusedShare";
    case DriftKind::kChangedAnnotations:
      return "ChangedAnnotations";
  }
  return "Unknown";
}

// --- values --------------------------------------------------------------------------------------

const kube::Pod* find_pod(const DriftFacts& facts, const PodUid& uid) {
  const auto at = std::ranges::find(facts.pods, uid, &kube::Pod::uid);
  return at == facts.pods.end() ? nullptr : &*at;
}

const CardFacts* find_healthy_card(const DriftFacts& facts, const CardUuid& card) {
  const auto at = std::ranges::find(facts.cards, card, &CardFacts::uuid);
  return at == facts.cards.end() || !at->healthy() ? nullptr : &*at;
}

const kube::ContainerStatus* find_running(const kube::Pod& pod, std::string_view container) {
  if (pod.phase != "Running" || pod.metadata.being_deleted) return nullptr;
  const auto at =
      std::ranges::find(pod.container_statuses, container, &kube::ContainerStatus::name);
  return at == pod.container_statuses.end() || !at->running ? nullptr : &*at;
}

std::string_view bare_container_id(const kube::ContainerStatus& status) {
  const std::string_view id = status.id;
  const std::size_t at = id.find("://");
  return at == id.npos ? id : id.substr(at + 3);
}

std::string shown(std::string_view text) {
  return json_escaped(cut_text(text, kShownMax));
}

std::string describe_container(std::string_view container, const PodRef& pod) {
  return fmt::format("container {} of pod {}", in_quotes(container), shown(to_string(pod)));
}

std::string describe_card(const CardIndex& index, const CardUuid& card) {
  return fmt::format("card {} ({})", index.value(), card.str());
}

// --- drifts --------------------------------------------------------------------------------------

std::vector<Drift> changed_annotations(const DriftFacts& facts, const Contract& contract) {
  std::vector<Drift> drifts;
  for (const auto& [key, record] : by_container(facts.records)) {
    const kube::Pod* const pod = find_pod(facts, key.first);
    if (pod == nullptr || pod->finished() || pod->metadata.being_deleted) continue;
    const std::string* const annotation = find_annotation(*pod, key.second, contract);
    if (annotation != nullptr && names_cards_of(*annotation, *record)) continue;
    Drift drift{.kind = DriftKind::kChangedAnnotations,
                .pod = pod->ref(),
                .uid = pod->uid(),
                .container = key.second};
    std::string cards = describe_cards(*record);
    drift.message = fmt::format(
        "{} was started on {}, and its annotation {} {}; set it to {} again, or delete the pod: "
        "its container does not start again, and an extender that starts counts other cards",
        describe_container(key.second, pod->ref()), cards, shown(contract.index_key(key.second)),
        annotation == nullptr ? "is missing" : "is " + in_quotes(*annotation),
        in_quotes(cards.substr(cards.find(' ') + 1)));
    drifts.push_back(std::move(drift));
  }
  return drifts;
}

std::vector<Drift> pods_without_devices(const DriftFacts& facts, const Contract& contract) {
  const auto records = by_container(facts.records);
  std::vector<Drift> drifts;
  for (const kube::Pod& pod : facts.pods) {
    for (const kube::Container* const one : listable(pod)) {
      const std::string& name = one->name;
      const auto record = records.find({pod.uid(), name});
      const Record* const started = record == records.end() ? nullptr : record->second;
      const std::string* const annotation = find_annotation(pod, name, contract);
      const bool has_cards = started != nullptr || (annotation != nullptr && !annotation->empty());
      if (!has_cards || find_running(pod, name) == nullptr) continue;
      if (facts.listed->contains({pod.ref(), name})) continue;
      if (is_contradicted(facts, pod.uid(), name)) continue;
      drifts.push_back(without_devices(pod, *one, started, annotation, contract));
    }
  }
  return drifts;
}

std::vector<Drift> processes_without_share(const DriftFacts& facts, const Contract& contract) {
  const Shares shares(facts, contract);
  std::map<std::tuple<PodUid, std::string, CardUuid>, UnallocatedProcesses> found;
  for (const ProcessSample& process : facts.processes->samples) {
    const CardFacts* const card = find_healthy_card(facts, process.card);
    if (card == nullptr) continue;
    const PodUid uid = process.container ? process.container->uid : PodUid();
    const kube::Pod* const pod = process.container ? find_pod(facts, uid) : nullptr;
    if (is_own(process, facts.own, pod)) continue;
    const std::string container = pod ? shares.container_of(*pod, *process.container) : "";
    if (!uid.empty() && shares.holds(uid, container, *card)) continue;
    UnallocatedProcesses& unallocated = found[{uid, container, process.card}];
    unallocated.card = card;
    unallocated.pod = pod;
    unallocated.container = container;
    unallocated.processes.push_back(&process);
  }
  std::vector<Drift> drifts;
  drifts.reserve(found.size());
  for (const auto& [key, unallocated] : found) {
    drifts.push_back(without_share(std::get<PodUid>(key), unallocated));
  }
  return drifts;
}

}  // namespace mgpu::plugin
