// Nodes and pods of a cluster with NVIDIA's device plugin, as mgpu would have them. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/contract/contract.h"

namespace mgpu::sim {

// The Node with the cards of the labels nvidia.com/gpu.product, .count and .memory; the same text
// if it has cards of mgpu, or not all of these labels.
std::string with_labelled_cards(const std::string& node, const Contract& contract);

// The Pod with requests of mgpu instead of those of NVIDIA's device plugin and others that
// `kubectl mgpu convert` knows, and without the node that it runs on; the same text if it has none.
// Errors: it has some that cannot be converted.
Result<std::string> with_own_requests(const std::string& pod, const Contract& contract);

// Whether the Pod requests GPUs in any way: others are not for mgpu.
bool requests_gpus(const std::string& pod);

}  // namespace mgpu::sim
