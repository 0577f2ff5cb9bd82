#include "plugin/containers/pre_start_handler.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/limits.h"
#include "plugin/containers/record_liveness.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

namespace {
using Clock = std::chrono::steady_clock;
using Reason = RefusalReason;

constexpr Duration kFetchTimeout{2'000};

Refusal not_yet(std::string message) {
  return {Reason::kNotReady, std::move(message), true};
}

bool asks_in_init(const kube::Pod& pod, const Contract& contract) {
  return std::ranges::any_of(pod.init_containers, [&](const kube::Container& container) {
    return !container.restart_always && container.limits.contains(contract.core_resource);
  });
}

// The containers of `listed` that have exactly these devices.
std::vector<ListedContainer> holders(const std::vector<ContainerDevices>& listed,
                                     const DeviceSet& devices) {
  std::vector<ListedContainer> found;
  for (const auto& one : listed) {
    if (one.devices == devices) found.push_back({one.pod, one.container});
  }
  return found;
}

bool same_container(const Record& record, const Identity& identity) {
  if (!record.bound() || record.owner->container != identity.container) return false;
  return identity.pod ? record.owner->pod == *identity.pod : record.owner->uid == identity.uid;
}

Refusal refused_by_node(const Record& record, const Error& problem) {
  Refusal refusal = not_yet(problem.message);
  refusal.pod = record.owner->pod;
  refusal.uid = record.owner->uid;
  return refusal;
}

Refusal about(Refusal refusal, const Identity& identity, const Decided<kube::Pod>& pod) {
  if (pod) {
    refusal.pod = pod->ref();
    refusal.uid = pod->uid();
  } else {
    refusal.pod = identity.pod.value_or(PodRef());
    refusal.uid = identity.uid;
  }
  return refusal;
}

}  // namespace

PreStartHandler::PreStartHandler(StarterSettings settings, StarterParts parts, OnRefused on_refused)
    : settings_(std::move(settings)), parts_(parts), on_refused_(std::move(on_refused)) {}

void PreStartHandler::open() {
  const MutexLock lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void PreStartHandler::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool PreStartHandler::wait(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, time, [this]() MGPU_REQUIRES(mutex_) { return closed_; });
}

// --- gathering -----------------------------------------------------------------------------------

PreStartHandler::Seen PreStartHandler::gather(const DeviceSet& devices) {
  Seen seen{.devices = devices,
            .evidence = {},
            .presence = {
                .gone_at_api_server = [this](const PodUid& uid) { return parts_.pods.gone(uid); },
                .kubelet_answered = false,
                .at_kubelet = {},
                .remade_at_api_server =
                    [this](const PodRef& pod, const PodUid& uid) {
                      return parts_.pods.remade(pod, uid);
                    }},
            .cards = parts_.inventory.state().cards};
  auto listed = parts_.pod_resources.list(settings_.contract.core_resource, kPodResourcesTimeout);
  if (listed) {
    seen.presence.kubelet_answered = true;
    for (const auto& one : *listed) seen.presence.at_kubelet.insert(one.pod);
    seen.evidence.listed = holders(*listed, devices);
  }
  note_problem("PodResources", listed ? "" : listed.error().message);
  seen.evidence.records = counting(parts_.records.with(devices), seen.presence);
  gather_checkpoint(seen);
  return seen;
}

void PreStartHandler::gather_checkpoint(Seen& seen) {
  if (identified_by_list(seen.evidence)) {
    const auto pod = parts_.pods.find(seen.evidence.listed->front().pod);
    if (!pod || !asks_in_init(*pod, settings_.contract)) return;
  }
  const auto checkpoint =
      read_checkpoint(settings_.plugin_folder, settings_.contract.core_resource);
  note_problem("kubelet's checkpoint", checkpoint ? "" : checkpoint.error().message);
  if (!checkpoint) return;
  seen.evidence.checkpointed.emplace();
  for (const auto& entry : checkpoint->entries) {
    if (entry.devices != seen.devices) continue;
    seen.evidence.checkpointed->push_back({entry.uid, entry.container, entry.allocation});
  }
}

void PreStartHandler::note_problem(const std::string& source, const std::string& problem) {
  const MutexLock lock(mutex_);
  std::string& noted = problems_[source];
  if (noted == problem) return;
  noted = problem;
  if (problem.empty()) {
    log_info("answers again", {{"source", source}});
  } else {
    log_warn("is not answered", {{"source", source}, {"problem", problem}});
  }
}

Decided<kube::Pod> PreStartHandler::pod_of(const Identity& identity) {
  const auto known =
      identity.pod ? parts_.pods.find(*identity.pod) : parts_.pods.find(identity.uid);
  const bool annotated = known && known->metadata.annotations.contains(settings_.contract.assumed);
  if (annotated) return *known;
  if (!identity.pod && !known) {
    return Refusal{Reason::kUnknownPod,
                   "pod uid " + identity.uid.str() + " is not known at the API server", true};
  }
  // Our watch may be behind kubelet's.
  auto fetched = parts_.pods.fetch(identity.pod ? *identity.pod : known->ref(), kFetchTimeout);
  if (fetched) return *std::move(fetched);
  if (known) return *known;
  return Refusal{Reason::kUnknownPod, fetched.error().message, true};
}

// --- deciding ------------------------------------------------------------------------------------

Decided<Record> PreStartHandler::judge_one(const Seen& seen, const Candidate& candidate) {
  const Identity& identity = candidate.identity;
  Record record;
  record.id = identity.allocation;
  record.devices = seen.devices;
  if (auto kept = parts_.records.find(identity.allocation)) record = *std::move(kept);
  const NodeState node = {settings_.node, seen.cards,
                          counting(parts_.records.bound(), seen.presence)};
  if (candidate.pod) return decide(identity, record, *candidate.pod, node, settings_.contract);
  if (same_container(record, identity)) return decide_again(record, node);
  return candidate.pod.error();
}

Decided<PreStartHandler::Records> PreStartHandler::judge(const Seen& seen,
                                                         const std::vector<Candidate>& candidates) {
  Records decided;
  const MutexLock lock(deciding_);
  for (const Candidate& candidate : candidates) {
    auto record = judge_one(seen, candidate);
    if (!record) return about(record.error(), candidate.identity, candidate.pod);
    if (auto ok = parts_.records.keep(*record); !ok) return not_yet(ok.error().message);
    decided.push_back(*std::move(record));
  }
  return decided;
}

Decided<PreStartHandler::Records> PreStartHandler::attempt(const DeviceSet& devices) {
  const Seen seen = gather(devices);
  const auto identities = identify(seen.evidence);
  if (!identities) return Refusal{Reason::kUnknownContainer, identities.error().message, true};
  std::vector<Candidate> candidates;
  for (const Identity& identity : *identities) candidates.push_back({identity, pod_of(identity)});
  return judge(seen, candidates);
}

// --- acting --------------------------------------------------------------------------------------

Result<bool> PreStartHandler::inject(const Record& record) {
  const auto edits = edits_of(record, parts_.inventory, parts_.mps);
  if (!edits) return edits.error();
  return parts_.injector.inject(record.id, *edits);
}

Decided<void> PreStartHandler::act(const Records& records) {
  bool changed = false;
  for (const Record& record : records) {
    const auto injected = inject(record);
    if (!injected) return refused_by_node(record, injected.error());
    changed = changed || *injected;
  }
  for (const Record& record : records) {
    auto saved = parts_.records.save(record, Durability::kMachine);
    if (!saved) return refused_by_node(record, saved.error());
  }
  if (changed && settings_.settle.count() > 0) wait(settings_.settle);
  return {};
}

Decided<void> PreStartHandler::attempt_and_act(const DeviceSet& devices) {
  {
    const MutexLock lock(mutex_);
    if (!open_)
      return not_yet("mgpu-device-plugin is starting and does not know all allocations yet");
  }
  auto decided = attempt(devices);
  if (!decided) return decided.error();
  auto acted = act(*decided);
  if (!acted) return acted;
  for (const Record& record : *decided) {
    log_info("container gets its cards",
             {{"pod", to_string(record.owner->pod)},
              {"container", record.owner->container},
              {"allocation", record.id.str()},
              {"cards", environment_of_cards(record).at("MGPU_CARDS")}});
  }
  return {};
}

Decided<void> PreStartHandler::start(const std::vector<std::string>& ids,
                                     const std::function<bool()>& cancelled) {
  const auto devices = DeviceSet::of(ids);
  if (!devices) {
    const Refusal refusal{Reason::kUnknownContainer, devices.error().message, false};
    on_refused_(refusal);
    return refusal;
  }
  const auto patience = Clock::now() + kPreStartTimeout;
  while (true) {
    auto started = attempt_and_act(*devices);
    const bool last = started || !started.error().transient || Clock::now() >= patience;
    if (last || cancelled() || !wait(kPreStartPoll)) {
      if (!started) on_refused_(started.error());
      return started;
    }
  }
}

}  // namespace mgpu::plugin
