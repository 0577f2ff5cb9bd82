// The expected workload: classes of pods with probabilities. FGD calls it the target workload (Weng
// et al., USENIX ATC 2023, "typical pods"). Values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// Pods with equal requests. A pod of several containers with cards counts as one class for each of
// them, the first with all of the pod's CPU and main memory.
struct PodClass {
  NodeResources resources = {};
  std::int32_t cards = 0;
  Share per_card = {};                            // core is 100 and memory is zero if `whole`
  bool whole = false;                             // all of the card's memory, whatever its size
  std::vector<std::string> models = {};           // as in CardSelector; ascending, each once
  std::vector<std::string> models_excluded = {};  // the same
  bool operator==(const PodClass&) const = default;
};

struct WeightedClass {
  PodClass what;
  double probability = 0;  // of the next pod; above 0
  bool assumed = false;    // from the prior (model_prior.h), not observed
};

// The most frequent first, assumed ones last. The probabilities sum up to 1, or there are no
// classes.
struct Workload {
  std::vector<WeightedClass> classes;
};

// Returns whether the probabilities sum up to 1, but for rounding, or there are no classes.
bool has_all_probabilities(const Workload& workload);

// The classes of a pod with these requests: one for each container, of which the kPodClassesMax
// largest are taken. A pod without cards is one class.
std::vector<PodClass> classes_of(const GpuRequest& request, const NodeResources& resources);

struct CountedClass {
  PodClass what;
  double count = 0;  // of observed pods, where some may count for less than one
};

// The most frequent classes that together cover the fraction `cover` of all counted pods, at most
// `most` of them with cards; equal counts keep their order. FGD covers 0.95 (simulator of
// hkust-adsl, pkg/utils/frag.go, GetTypicalPods).
Workload workload_of(std::vector<CountedClass> counted, double cover, std::size_t most);

}  // namespace mgpu::extender
