// A prior for pods that request a specific GPU model and have not been observed yet. Without it,
// cards of a model that no observed pod requests would have the lowest prices and be filled first,
// and none would be left for the first pod that requests them. Pure.
#pragma once

#include "extender/pricing/node_room.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// The probabilities of all pods of the prior, divided equally among the models: pods that request
// one whole card, and pods that request all cards of a node.
inline constexpr double kPriorOfOneCard = 0.035;
inline constexpr double kPriorOfANode = 0.007;

// Appends these classes, marked `assumed`, and scales down the probabilities of the others. A
// workload without classes, and one for a cluster of a single model, is not changed.
void add_model_prior(const Kinds& kinds, Workload& workload);

}  // namespace mgpu::extender
