// The shares of containers that have not started: their pod is bound, and waits for an image, for a
// volume or for an init container. Nobody else can have their cards meanwhile. Pure.
#pragma once

#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "plugin/monitor/join.h"
#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {

// `uses` is what join() has found, and `held` what held_shares() makes of it. `pods` are those of
// the node.
//
// A container without a record waits. Of a card it holds its request, but the pod holds no more of
// a card than Kubernetes counts: init containers have the same room as those that follow. So what
// the pod already holds in `held` is subtracted. App containers come first, then init containers.
//
// Its use is 0, because it cannot use the card. A container that has started according to its
// status, but has no record, has lost it: nothing is known of its use.
std::vector<HeldShare> waiting_shares(const std::vector<kube::Pod>& pods,
                                      const std::vector<ContainerUse>& uses,
                                      const std::vector<HeldShare>& held,
                                      const std::vector<CardFacts>& cards,
                                      const Contract& contract);

}  // namespace mgpu::plugin
