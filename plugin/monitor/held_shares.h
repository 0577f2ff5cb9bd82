// Which shares containers hold at the moment of a sample, for the account of use. Pure.
#pragma once

#include <map>
#include <vector>

#include "plugin/monitor/join.h"
#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {

// The pods as the API server reports them.
struct ReportedPod {
  bool finished = false;  // succeeded or failed
  kube::PodOwner owner;
};
struct ReportedPods {
  bool listed = false;  // otherwise a pod that is missing may exist
  std::map<PodUid, ReportedPod> pods{};
};

// Which containers without a value of the driver have certainly not used a card: none, where it
// measures no processes; those without a process on it, where clients of MPS may have used it; all.
enum class KnownIdle { kNobody, kWithoutProcess, kWithoutValue };
// The cards that the driver answered for.
using ReadCards = std::map<CardUuid, KnownIdle>;

// `uses` is what join() has found.
//
// A share is held while its record exists, with two exceptions, each only where the container has
// no process on the card:
//   - its pod has ended at the API server, where the scheduler may give the share to another pod;
//   - it is of an init container that a later container of the pod has followed. Kubernetes gives
//     both the same room, which must not be charged twice.
//
// No value of a card that did not answer is known.
std::vector<HeldShare> held_shares(const std::vector<ContainerUse>& uses, const ReadCards& cards,
                                   const ReportedPods& reported);

}  // namespace mgpu::plugin
