// Drifts: differences between what pods hold by their annotations, what their containers were
// started with, what kubelet gave to them, and which processes run on the cards. This header has
// what can be seen at one moment; drift_watch.h decides what of it is reported. Pure.
//
//   kind                   found where
//   PodWithoutDevices      a container runs and has cards by its annotation or its record, but
//                          kubelet lists no devices of it, nor does its checkpoint
//   ProcessWithoutShare    a process runs on a card of which its container holds no share, or
//                          belongs to no pod
//   UnusedShare            no process of a running container has been on its card for long
//                          (unused_shares.h)
//   ChangedAnnotations     the annotation of a container names other cards than the record that it
//                          was started with
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "plugin/allocation/record.h"
#include "plugin/monitor/join.h"

namespace mgpu::plugin {

enum class DriftKind {
  kPodWithoutDevices,
  kProcessWithoutShare,
  kUnusedShare,
  kChangedAnnotations,
};
inline constexpr std::array kDriftKinds{DriftKind::kPodWithoutDevices,
                                        DriftKind::kProcessWithoutShare, DriftKind::kUnusedShare,
                                        DriftKind::kChangedAnnotations};
// "PodWithoutDevices"
std::string_view label(DriftKind kind);

struct Drift {
  DriftKind kind = DriftKind::kPodWithoutDevices;
  PodRef pod{};             // empty: of no pod, or of one that the API server does not have
  PodUid uid{};             // empty: of no pod
  std::string container{};  // empty: not known
  CardUuid card{};          // empty: it is not about one card
  std::optional<CardIndex> index{};
  Instant since{};
  std::string message{};  // one sentence that says what is wrong and what to do
};

// A process that holds no share for a reason that is known.
struct OwnProcesses {
  std::int64_t pid = 0;    // of the plugin
  PodUid pod{};            // of the plugin; empty: it runs in no pod
  std::string name_space;  // of that pod, which may also have the pods of mgpu-mps
};

// The processes on the cards, as the driver lists them.
struct CardProcesses {
  std::vector<ProcessSample> samples;
  // Cards of which every process is in `samples`.
  std::set<CardUuid> complete;
  // Cards with a process that ended before its container could be read.
  std::set<CardUuid> doubtful;
};

// What is known at one moment. What is not set is not known, and nothing is concluded from it.
struct DriftFacts {
  Instant now{};
  std::vector<kube::Pod> pods;  // of this node, as the API server reports them
  std::vector<Record> records;  // bound ones
  std::vector<CardFacts> cards;
  std::optional<CardProcesses> processes{};
  // The containers of which kubelet's PodResources lists devices. A later pod may have the same
  // name.
  std::optional<std::set<std::pair<PodRef, std::string>>> listed{};
  OwnProcesses own{};
  // These cost more, and are called only where something was found, several times in one step.
  // Neither is empty.
  //
  // The containers of which kubelet's checkpoint has devices.
  std::function<std::optional<std::set<std::pair<PodUid, std::string>>>()> checkpointed{};
  // The pods that have processes on this node. An empty set: the processes of the node are not
  // visible.
  std::function<std::optional<std::set<PodUid>>()> with_processes{};
};

// `since` is not set in the results. pods_without_devices REQUIRES facts.listed,
// processes_without_share REQUIRES facts.processes.
std::vector<Drift> changed_annotations(const DriftFacts& facts, const Contract& contract);
std::vector<Drift> pods_without_devices(const DriftFacts& facts, const Contract& contract);
std::vector<Drift> processes_without_share(const DriftFacts& facts, const Contract& contract);

// --- for this folder -----------------------------------------------------------------------------

const kube::Pod* find_pod(const DriftFacts& facts, const PodUid& uid);
// Null unless the card is known and healthy. Cards that are reserved, have MIG or are released are
// not: other programs may use them.
const CardFacts* find_healthy_card(const DriftFacts& facts, const CardUuid& card);
// The status of the container with this name, if it runs now in a pod that is not being deleted.
const kube::ContainerStatus* find_running(const kube::Pod& pod, std::string_view container);
// The id of a status, without the name of the runtime.
std::string_view bare_container_id(const kube::ContainerStatus& status);
// Text from outside for a message: escaped, and cut after 253 bytes.
std::string shown(std::string_view text);
// "container app of pod ml/a"
std::string describe_container(std::string_view container, const PodRef& pod);
// "card 0 (GPU-1)"
std::string describe_card(const CardIndex& index, const CardUuid& card);

}  // namespace mgpu::plugin
