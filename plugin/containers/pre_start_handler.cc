#include "plugin/containers/pre_start_handler.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/containers/limits.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

namespace {

using Clock = std::chrono::steady_clock;
using Reason = RefusalReason;

Refusal not_ready(std::string message) {
  return {Reason::kNotReady, std::move(message), true};
}

Refusal not_ready(const Record& record, const Error& problem) {
  return {Reason::kNotReady, problem.message, true, record.owner->pod, record.owner->uid};
}

bool is_owner(const Record& record, const Identity& identity) {
  if (!record.bound() || record.owner->container != identity.container) return false;
  return identity.uid.empty() ? record.owner->pod == identity.pod
                              : record.owner->uid == identity.uid;
}

}  // namespace

PreStartHandler::PreStartHandler(PreStartOptions options, PreStartDependencies dependencies,
                                 std::function<void(const Refusal&)> on_refused)
    : options_(std::move(options)),
      dependencies_(std::move(dependencies)),
      on_refused_(std::move(on_refused)) {}

void PreStartHandler::open() {
  const MutexLock lock(mutex_);
  open_ = true;
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

Decided<void> PreStartHandler::start(const std::vector<std::string>& ids,
                                     const std::function<bool()>& cancelled) {
  const auto devices = DeviceSet::of(ids);
  if (!devices) {
    const Refusal refusal{Reason::kUnknownContainer, devices.error().message, false};
    on_refused_(refusal);
    return refusal;
  }
  const auto deadline = Clock::now() + kPreStartTimeout;
  while (true) {
    auto started = attempt(*devices);
    const bool retry = !started && started.error().transient && Clock::now() < deadline;
    if (retry && !cancelled() && wait(kPreStartPoll)) continue;
    if (!started) on_refused_(started.error());
    return started;
  }
}

Decided<void> PreStartHandler::attempt(const DeviceSet& devices) {
  {
    const MutexLock lock(mutex_);
    if (!open_) return not_ready("mgpu-device-plugin is starting; its allocations are not loaded");
  }
  const Observed observed = observe(devices);

  const auto identities = identify(observed.evidence);
  if (!identities) return Refusal{Reason::kUnknownContainer, identities.error().message, true};

  std::vector<Decided<kube::Pod>> pods;
  for (const Identity& identity : *identities) pods.push_back(find_pod(identity));

  const auto records = reserve(observed, *identities, pods);
  if (!records) return records.error();

  const auto changed = inject(*records);
  if (!changed) return changed.error();

  if (const auto saved = save(*records); !saved) return saved;

  if (*changed) wait(options_.settle);
  if (!records->empty()) check_processes(records->front().owner->uid);

  for (const Record& record : *records) {
    log_info("container may start", {{"pod", to_string(record.owner->pod)},
                                     {"container", record.owner->container},
                                     {"allocation", record.id.str()},
                                     {"cards", environment_of_cards(record).at("MGPU_CARDS")}});
  }
  return {};
}

PreStartHandler::Observed PreStartHandler::observe(const DeviceSet& devices) {
  const std::string& resource = options_.contract.core_resource;
  Evidence evidence;
  const auto listed = dependencies_.pod_resources.list(resource, kPodResourcesTimeout);
  log_problem("PodResources", listed ? "" : listed.error().message);
  if (listed) {
    evidence.listed.emplace();
    for (const ContainerDevices& one : *listed) {
      if (one.devices == devices) evidence.listed->push_back({one.pod, one.container});
    }
  }

  const auto checkpoint = read_checkpoint(options_.plugin_folder, resource);
  log_problem("kubelet's checkpoint", checkpoint ? "" : checkpoint.error().message);
  if (checkpoint) {
    evidence.checkpointed.emplace();
    for (const CheckpointEntry& entry : checkpoint->entries) {
      if (entry.devices != devices) continue;
      evidence.checkpointed->push_back({entry.uid, entry.container, entry.allocation});
    }
  }
  RecordLiveness liveness =
      liveness_of(dependencies_.pods, listed, checkpoint, dependencies_.processes);
  evidence.records = liveness.without_ended(dependencies_.records.with(devices));
  return {devices, std::move(liveness), std::move(evidence), dependencies_.inventory.state().cards};
}

// Reads the pod from the API server if the watch has not delivered it with its annotations yet, and
// if only its name is known: the watch may still show an earlier pod of this name.
Decided<kube::Pod> PreStartHandler::find_pod(const Identity& identity) {
  const auto known = find_known(identity);
  if (known && known->metadata.annotations.contains(options_.contract.assumed)) return *known;
  if (!identity.pod && !known) {
    return Refusal{Reason::kUnknownPod,
                   "pod uid " + identity.uid.str() + " is not known at the API server", true};
  }
  auto fetched =
      dependencies_.pods.fetch(identity.pod ? *identity.pod : known->ref(), kPodFetchTimeout);
  if (fetched) return *std::move(fetched);
  if (known) return *known;
  return Refusal{Reason::kUnknownPod, fetched.error().message, true};
}

std::optional<kube::Pod> PreStartHandler::find_known(const Identity& identity) const {
  if (!identity.uid.empty()) return dependencies_.pods.find(identity.uid);
  const auto record = dependencies_.records.find(identity.allocation);
  if (!record || !record->bound()) return std::nullopt;
  return dependencies_.pods.find(record->owner->uid);
}

void PreStartHandler::between_containers(const std::function<void()>& change) {
  const MutexLock lock(reserving_);
  change();
}

// Decides on each container, and keeps its record in memory, so that later decisions count it.
Decided<std::vector<Record>> PreStartHandler::reserve(const Observed& observed,
                                                      const std::vector<Identity>& identities,
                                                      const std::vector<Decided<kube::Pod>>& pods) {
  MGPU_DEBUG_CHECK(pods.size() == identities.size(), "each container was asked for its pod");
  std::vector<Record> records;
  const MutexLock lock(reserving_);
  for (std::size_t i = 0; i < identities.size(); ++i) {
    auto record = decide_one(observed, identities[i], pods[i]);
    if (!record) {
      Refusal refusal = record.error();
      refusal.pod = pods[i] ? pods[i]->ref() : identities[i].pod.value_or(PodRef());
      refusal.uid = pods[i] ? pods[i]->uid() : identities[i].uid;
      return refusal;
    }
    MGPU_DEBUG_CHECK(record->bound() && record->id == identities[i].allocation,
                     "a share is given to the container that starts");
    if (auto kept = dependencies_.records.keep(*record); !kept)
      return not_ready(kept.error().message);
    records.push_back(*std::move(record));
  }
  return records;
}

Decided<Record> PreStartHandler::decide_one(const Observed& observed, const Identity& identity,
                                            const Decided<kube::Pod>& pod) const {
  Record record;
  record.id = identity.allocation;
  record.devices = observed.devices;
  if (auto kept = dependencies_.records.find(identity.allocation)) record = *std::move(kept);
  const NodeState node = {options_.node, observed.cards,
                          observed.liveness.without_ended(dependencies_.records.bound())};
  if (pod) return decide(identity, record, *pod, node, options_.contract);
  if (is_owner(record, identity)) return decide_again(record, node);
  return pod.error();
}

// Returns whether a file of the runtime has changed.
Decided<bool> PreStartHandler::inject(const std::vector<Record>& records) {
  bool changed = false;
  const ShareLimits limits =
      dependencies_.share_limits ? dependencies_.share_limits() : ShareLimits();
  for (const Record& record : records) {
    // Its edits name what this makes.
    const auto prepared = limits.before_start ? limits.before_start(record) : Result<void>();
    if (!prepared) return not_ready(record, prepared.error());
    const auto edits = edits_of(record, dependencies_.inventory, limits);
    if (!edits) return not_ready(record, edits.error());
    const auto injected = dependencies_.injector.inject(record.id, *edits);
    if (!injected) return not_ready(record, injected.error());
    changed = changed || *injected;
  }
  return changed;
}

void PreStartHandler::check_processes(const PodUid& uid) {
  if (processes_checked_.exchange(true)) return;
  const auto pods = dependencies_.processes.pods();
  if (pods && pods->contains(uid)) return;
  log_warn(
      "the processes of pods are not visible, so that the card of a pod that is deleted with "
      "grace period 0 counts as free at once; start the plugin in the process namespace of the "
      "node",
      {{"problem", pods ? "the pod that starts has no process" : pods.error().message}});
}

Decided<void> PreStartHandler::save(const std::vector<Record>& records) {
  for (const Record& record : records) {
    const auto saved = dependencies_.records.save(record, Durability::kMachine);
    if (!saved) return not_ready(record, saved.error());
  }
  return {};
}

void PreStartHandler::log_problem(const std::string& source, const std::string& problem) {
  const MutexLock lock(mutex_);
  if (std::exchange(problems_[source], problem) == problem) return;
  if (problem.empty()) {
    log_info("kubelet query succeeds again", {{"source", source}});
  } else {
    log_warn("kubelet query failed", {{"source", source}, {"problem", problem}});
  }
}

}  // namespace mgpu::plugin
