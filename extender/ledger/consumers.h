// What the ledger follows: the nodes, and the pods that are bound.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/reflector.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/ledger.h"

namespace mgpu::extender {

// What the ledger and the learned workload need of a pod: a relist of a whole cluster is gathered
// in this form.
struct PodFacts {
  enum class Phase { kWaiting, kBound, kFinished };
  NonGpuPod pod;  // its node is set where it is bound
  Phase phase = Phase::kWaiting;
  std::optional<Claim> claim;  // where it is bound and asks for cards
  std::optional<GpuRequest>
      request;  // where it is bound: as filter reads it; none: it would refuse
};

// Both keep the ledger equal to the API server. `ledger` and `contract` outlive them. After a
// relist with an object that could not be read, nothing that is missing from it is taken as gone.

// `on_problem`: of each node whose cards cannot be used, and why, as one sentence.
kube::Consumer<NodeFacts> node_consumer(Ledger& ledger, const Contract& contract,
                                        std::function<void(const std::string&)> on_problem);

struct PodHandlers {
  // Of each pod that the API server shows as bound, finished or gone.
  std::function<void(const PodUid&)> on_settled = [](const PodUid&) {};
  // Of each that it shows as bound.
  std::function<void(const PodFacts&)> on_bound = [](const PodFacts&) {};
};
kube::Consumer<PodFacts> pod_consumer(Ledger& ledger, const Contract& contract,
                                      PodHandlers handlers);

}  // namespace mgpu::extender
