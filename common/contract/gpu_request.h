// What a pod asks of cards, read once from its spec and annotations. Every later step works on
// this value. Pure.
//
//   a container asks                               means
//   core 1..100, memory m                          a share of one card
//   core n*100, no memory                          n whole cards, nobody beside it
//   core n*100, memory m, n >= 2                   n cards, each 100 % and m/n
//   + container-multiple-gpu: k for the container  core and memory split equally over k cards
//   neither                                        no cards
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"
#include "common/kube/objects.h"

namespace mgpu {

enum class ContainerKind : std::uint8_t {
  kInit,     // runs alone, before the app containers, beside the sidecars declared before it
  kSidecar,  // restartable init container: runs from its turn until the pod ends
  kApp,
};

struct ContainerRequest {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  std::int32_t cards = 1;  // distinct cards, 1 .. kCardsPerNodeMax
  Share per_card;          // of each; where `whole`, core is 100 and memory is zero
  bool whole = false;      // all of the card's memory, whatever its size

  // What it takes of a card of this capacity.
  Share on(const Share& capacity) const {
    return whole ? Share{kWholeCard, capacity.memory} : per_card;
  }
  bool operator==(const ContainerRequest&) const = default;
};

// Which cards the pod may use. A card matches when its model (uuid) is in the list or the list is
// empty, and is not in the exclude list. Models compare without regard to case.
struct CardSelector {
  std::vector<std::string> models;
  std::vector<std::string> models_excluded;
  std::vector<std::string> uuids;
  std::vector<std::string> uuids_excluded;

  bool empty() const {
    return models.empty() && models_excluded.empty() && uuids.empty() && uuids_excluded.empty();
  }
  bool operator==(const CardSelector&) const = default;
};

struct GpuRequest {
  // Containers that ask for cards: init containers and sidecars in spec order, then app containers
  // in spec order. Empty: not a GPU pod.
  std::vector<ContainerRequest> containers;
  CardSelector selector;
  std::string policy;  // the pod's own choice, as written; empty = the extender's default

  bool empty() const { return containers.empty(); }
  bool operator==(const GpuRequest&) const = default;
};

// `min_memory` is the least memory of one card that a share may ask for.
// Errors, each a sentence of its own naming the container or annotation, the value and what was
// expected: every row of "Refused" in the README's table of requests. The policy's name is not
// looked up here (policy.h).
Result<GpuRequest> read_request(const kube::Pod& pod, const Contract& contract, MiB min_memory);

// Every container that asks for cards in `request` keeps its own cards:
//   cards_of[i] belong to request.containers[i], ascending.
struct Placement {
  std::vector<std::vector<CardIndex>> cards_of;
  bool operator==(const Placement&) const = default;
};

// Reads the placement from a bound pod's annotations. Errors: an annotation missing, not parsing,
// or with another number of cards than the container asks for.
Result<Placement> read_placement(const kube::Pod& pod, const GpuRequest& request,
                                 const Contract& contract);

// Some of a request's containers: bit i is containers[i].
using ContainerSet = std::uint64_t;
static_assert(kGpuContainersPerPodMax <= 64);

// What the containers of `on` together hold of one card of this capacity, at most at a time
// (pod_requests.h).
Share hold_on(const Share& capacity, std::span<const ContainerRequest> containers, ContainerSet on);

}  // namespace mgpu
