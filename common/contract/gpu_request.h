// The GPU request of a pod, which is read from its spec and annotations. Pure.
//
//   limits of a container                          meaning
//   core 1..100, memory m                          a share of one card
//   core n*100, no memory                          n whole cards, shared with no other container
//   core n*100, memory m, n >= 2                   n cards, each with 100 % and m/n
//                                                  100 % of a card is all of its compute, also
//                                                  where pods may hold more than 100 % in sum
//   + container-multiple-gpu: k for the container  core and memory are split equally over k cards
//   neither                                        no cards
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"
#include "common/kube/objects/objects.h"

namespace mgpu {

enum class ContainerKind : std::uint8_t {
  kInit,     // runs to completion before the next container is started
  kSidecar,  // a restartable init container, which runs until the pod terminates
  kApp,
};

struct ContainerRequest {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  std::int32_t cards = 1;  // distinct cards, 1 .. kCardsPerNodeMax
  Share per_card;          // if `whole`, core is 100 and memory is zero
  bool whole = false;      // all of the memory of each card

  // The share of a card of this capacity. One that requests 100 % has the card's compute alone.
  Share on(const Share& capacity) const {
    const Percent core = per_card.core < kWholeCard ? per_card.core : all_core(capacity);
    return {core, whole ? capacity.memory : per_card.memory};
  }
  static Percent all_core(const Share& capacity) { return std::max(kWholeCard, capacity.core); }
  bool operator==(const ContainerRequest&) const = default;
};

// The cards that the pod may use: those whose model and uuid are in the lists, where an empty list
// means all, and not in the lists of excluded ones. Models are compared as in
// extender/placement/card_model.h.
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

// What a pod asks of the links between the cards of a container that has several (card_links.h).
enum class LinkPreference : std::uint8_t {
  kPreferred,  // the best connected of the sets of cards that are equally good otherwise
  kRequired,   // each two cards have NVLink
  kIgnored,    // links do not count
};
// "required", "preferred", "ignored".
std::string_view to_string(LinkPreference preference);

struct GpuRequest {
  // The containers that request cards: init containers and sidecars in spec order, then app
  // containers in spec order. Empty for a non-GPU pod.
  std::vector<ContainerRequest> containers;
  CardSelector selector;
  std::string policy;  // the annotation; empty: the default of the extender
  LinkPreference links = LinkPreference::kPreferred;

  bool empty() const { return containers.empty(); }
  bool operator==(const GpuRequest&) const = default;
};

// `min_memory` is the least memory that a share of a card may have. Errors: those in the table of
// requests in the README. Each sentence names the container or annotation, the value and what was
// expected. The name of the policy is not checked here (policy.h).
Result<GpuRequest> read_request(const kube::Pod& pod, const Contract& contract, MiB min_memory);
// The same without the annotations that select cards or a policy, or are about links.
Result<GpuRequest> read_containers(const kube::Pod& pod, const Contract& contract, MiB min_memory);
// The same for a bound pod whose container-multiple-gpu may have changed since: an app container
// has as many cards as its index annotation names, and none without that annotation.
Result<GpuRequest> read_bound_containers(const kube::Pod& pod, const Contract& contract);

// The most that the pod may hold of any one card, with any annotations, now or later. Whole
// cards count as 100 % and kCardMemoryMiBMax, which is no less than any card has. It is also
// defined if read_containers() is an error. Errors: an amount cannot be read.
Result<Share> most_of_one_card(const kube::Pod& pod, const Contract& contract);

// The cards of a pod: cards_of[i] are those of request.containers[i], ascending.
struct Placement {
  std::vector<std::vector<CardIndex>> cards_of;
  bool operator==(const Placement&) const = default;
};

// Reads the annotations of a bound pod. Errors: an annotation is missing or malformed, or does not
// have the number of cards that the container requests.
Result<Placement> read_placement(const kube::Pod& pod, const GpuRequest& request,
                                 const Contract& contract);

// A set of the containers of a request: bit i is containers[i].
using ContainerSet = std::uint64_t;
static_assert(kGpuContainersPerPodMax <= 64);

// The share of one card of this capacity that the containers in `on` need together, as for the
// requests of a pod (pod_requests.h).
Share hold_on(const Share& capacity, std::span<const ContainerRequest> containers, ContainerSet on);

}  // namespace mgpu
