// What pods ask for, as classes with frequencies: the workload that a policy expects to come. FGD
// calls it the target workload (Weng et al., USENIX ATC 2023, "typical pods"). Values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// Pods that ask for the same. A pod of several containers with cards counts as one class for each
// of them, the first with all of the pod's host amounts.
struct PodClass {
  NodeResources host = {};
  std::int32_t cards = 0;  // 0: asks for none
  Share per_card = {};     // of each card; core is 100 and memory is zero where `whole`
  bool whole = false;      // all of the card's memory, whatever its size
  std::vector<std::string> models = {};           // as CardSelector's; ascending, each once
  std::vector<std::string> models_excluded = {};  // the same
  bool operator==(const PodClass&) const = default;
};

struct WeightedClass {
  PodClass what;
  double probability = 0;  // of the next pod; above 0
  bool assumed = false;    // none like it was seen: unseen.h
};

// The most frequent first, those assumed last; probabilities sum up to 1. Empty: nothing is known.
struct Workload {
  std::vector<WeightedClass> classes;
};

// What a pod with this request and these host amounts counts as.
std::vector<PodClass> classes_of(const GpuRequest& request, const NodeResources& host);

struct CountedClass {
  PodClass what;
  std::int64_t count = 0;  // pods seen
};

// The most frequent classes that together cover `cover` (0..1) of all counted pods, at most `most`
// of them; equal counts in the order given. FGD covers 0.95 (simulator of hkust-adsl,
// pkg/utils/frag.go, GetTypicalPods).
Workload workload_of(std::vector<CountedClass> counted, double cover, std::size_t most);

}  // namespace mgpu::extender
