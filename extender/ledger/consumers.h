// The consumers of the watches of nodes and pods, which fill the ledger.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/watch/reflector.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/ledger.h"

namespace mgpu::extender {

// What the ledger uses of a pod. A relist of a whole cluster is collected in this form.
struct PodFacts {
  enum class Phase { kWaiting, kBound, kFinished };
  NonGpuPod pod;  // its node is set if it is bound
  Phase phase = Phase::kWaiting;
  std::optional<Claim> claim;  // if it is bound and requests cards
};

// node_consumer() and pod_consumer() keep the ledger equal to the API server. `ledger` and
// `contract` outlive them. After a relist with an object that could not be read, an object that is
// missing in it is not removed.

// `on_problem` is called with one sentence for each node whose cards cannot be read.
kube::Consumer<NodeFacts> node_consumer(Ledger& ledger, const Contract& contract,
                                        std::function<void(const std::string&)> on_problem);

struct NominationEvents {
  // The pod is nominated, or has changed since then.
  std::function<void(const kube::Pod& pod)> on_nominated = [](const kube::Pod&) {};
  // It is bound, deleted, or nominated no more.
  std::function<void(const PodUid&)> on_ended = [](const PodUid&) {};
};
// Keeps the nominations in the ledger equal to those at the API server. After a relist with an
// object that could not be read, nominations that are missing in it stay until they are too old.
kube::Consumer<kube::Pod> nomination_consumer(Reservations& reservations, NominationEvents events);

struct PodEvents {
  // For each pod that is bound, finished or deleted.
  std::function<void(const PodUid&)> on_settled = [](const PodUid&) {};
  // For each pod that kubelet reports as running, with a request that filter would not reject, as
  // soon as it is read, since a relist does not keep the requests of the whole cluster. May be
  // called several times for a pod. A pod that is bound and does not run may have been bound by
  // anyone, to a node on which it never starts.
  std::function<void(const PodRef& pod, const NonGpuPod& facts, const GpuRequest& request)>
      on_running = [](const PodRef&, const NonGpuPod&, const GpuRequest&) {};
  // For each bound pod whose drift begins, changes or ends. Not under the ledger's lock.
  std::function<void(const DriftChange& change)> on_drift = [](const DriftChange&) {};
};
kube::Consumer<PodFacts> pod_consumer(Ledger& ledger, const Contract& contract, PodEvents events);

}  // namespace mgpu::extender
