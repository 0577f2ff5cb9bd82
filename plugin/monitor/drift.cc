#include "plugin/monitor/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/text.h"

namespace mgpu::plugin {
namespace {

// The longest name of a pod (RFC 1123 subdomain).
constexpr std::size_t kShownMax = 253;
// The name of nvidia-cuda-mps-server, as the kernel cuts it.
constexpr std::string_view kMpsServer = "nvidia-cuda-mps";

// Null unless the card is known and healthy. Cards that are reserved, have MIG or are released are
// not: other programs may use them.
const CardFacts* find_healthy_card(const DriftFacts& facts, const CardUuid& card) {
  const auto at = std::ranges::find(facts.cards, card, &CardFacts::uuid);
  return at == facts.cards.end() || !at->healthy() ? nullptr : &*at;
}

// The id of a status, without the name of the runtime.
std::string_view bare_container_id(const kube::ContainerStatus& status) {
  const std::string_view id = status.id;
  const std::size_t at = id.find("://");
  return at == id.npos ? id : id.substr(at + 3);
}

// Text from outside for a message: escaped, and cut after 253 bytes.
std::string shown(std::string_view text) {
  return json_escaped(cut_text(text, kShownMax));
}

// "container app of pod ml/a"
std::string describe_container(std::string_view container, const PodRef& pod) {
  return fmt::format("container {} of pod {}", in_quotes(container), shown(to_string(pod)));
}

// "card 0 (GPU-1)"
std::string describe_card(const CardIndex& index, const CardUuid& card) {
  return fmt::format("card {} ({})", index.value(), card.str());
}

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
             has_by_annotation(*pod, one, card.index);
    };
    return std::ranges::any_of(pod->containers, has_card) ||
           std::ranges::any_of(pod->init_containers, has_card);
  }

 private:
  // Only of the containers of the pod that request cards: anybody who may change the pod can write
  // an annotation with another name, and kubelet gives nothing to a container without a request.
  bool has_by_annotation(const kube::Pod& pod, const kube::Container& container,
                         CardIndex card) const {
    if (recorded_.contains({pod.uid(), container.name})) return false;
    if (!container.limits.contains(contract_.core_resource)) return false;
    const std::string* const annotation = find_annotation(pod, container.name, contract_);
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
  drift.message =
      fmt::format("{} of {} {} {} without a share of it; {}", who, owner, one ? "uses" : "use",
                  card, texts_of(DriftKind::kProcessWithoutShare).remedy);
  return drift;
}

}  // namespace

const kube::Pod* find_pod(const DriftFacts& facts, const PodUid& uid) {
  const auto at = std::ranges::find(facts.pods, uid, &kube::Pod::uid);
  return at == facts.pods.end() ? nullptr : &*at;
}

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

std::vector<Drift> processes_without_share(const DriftFacts& facts, const Contract& contract) {
  const Shares shares(facts, contract);
  std::map<std::tuple<PodUid, std::string, CardUuid>, UnallocatedProcesses> found;
  for (const ProcessSample& process : *facts.processes) {
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
