// Drifts: differences between what pods hold by their annotations, what their containers were
// started with, and which processes run on the cards. This header has what can be seen at one
// moment; drift_watch.h decides what of it is reported. Pure.
//
//   ProcessWithoutShare    a process runs on a card of which its container holds no share, or
//                          belongs to no pod
//   ChangedAnnotations     the annotation of a container names other cards than the record that it
//                          was started with
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/contract/contract.h"
#include "common/contract/drift.h"
#include "common/kube/objects/objects.h"
#include "plugin/allocation/record.h"
#include "plugin/monitor/join.h"

namespace mgpu::plugin {

// Those that a node can have.
inline constexpr std::array kNodeDriftKinds{DriftKind::kProcessWithoutShare,
                                            DriftKind::kChangedAnnotations};

struct Drift {
  DriftKind kind = DriftKind::kProcessWithoutShare;
  PodRef pod{};             // empty: of no pod, or of one that the API server does not have
  PodUid uid{};             // empty: of no pod
  std::string container{};  // empty: not known
  CardUuid card{};          // empty: it is not about one card
  std::optional<CardIndex> index{};
  Instant since{};
  std::string message{};  // one sentence that says what is wrong and what to do
};

// The processes of mgpu itself, which use cards and hold no share.
struct OwnProcesses {
  std::int64_t pid = 0;    // of the plugin
  PodUid pod{};            // of the plugin; empty: it runs in no pod
  std::string name_space;  // of that pod, which may also have the pods of mgpu-mps
};

// What is known at one moment. What is not set is not known, and nothing is concluded from it.
struct DriftFacts {
  Instant now{};
  std::vector<kube::Pod> pods;  // of this node, as the API server reports them
  std::vector<Record> records;  // bound ones
  std::vector<CardFacts> cards;
  std::optional<std::vector<ProcessSample>> processes{};  // on the cards, as the driver lists them
  OwnProcesses own{};
};

// `since` is not set in the results. processes_without_share REQUIRES facts.processes.
std::vector<Drift> changed_annotations(const DriftFacts& facts, const Contract& contract);
std::vector<Drift> processes_without_share(const DriftFacts& facts, const Contract& contract);

// The pod with this uid; null: it is not known.
const kube::Pod* find_pod(const DriftFacts& facts, const PodUid& uid);

}  // namespace mgpu::plugin
