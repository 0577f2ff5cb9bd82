// The contract between the extender, the device plugin and users: the names of all resources and
// annotations, and the grammar of their values.
//
//   resource   <domain>/mgpu-core                        whole number, percent of a card, 100 = one
//              <domain>/mgpu-memory                      whole number, MiB
//   pod        <domain>/assumed                          "true"
//              <domain>/gpu-index-container-<container>  index-list
//              <domain>/container-multiple-gpu           count-list
//              <domain>/mgpu-policy                      policy | policy "/" policy
//              <domain>/gpu-model[-exclude]              name-list
//              <domain>/gpu-uuid[-exclude]               name-list
//              <domain>/gpu-links                        "required" | "preferred" | "ignored"
//              condition <domain>/mgpu-bind-checked      message: a value never used before
//   node       <domain>/mgpu-cards                       node-cards
//              <domain>/mgpu-cordoned-cards              index-list of cards that get no pods
//              label <domain>/mgpu-profile               the name of its profile
//              label <domain>/mgpu-release-driver        its device plugin does not use the driver
//              taint <domain>/mgpu-needs-cpu             PreferNoSchedule, see cpu_taint.h
//
//   index-list := index ("," index)*        ascending, no index twice: "3", "0,2"
//   count-list := count ("," count)*        one for each app container in spec order, 0 = no card:
//                                           "2,0,1"; blanks around a count are ignored
//               | name "=" count ("," name "=" count)*
//                                           of the app containers with these names: "train=2";
//                                           others have as many cards as without a list
//   name-list  := name ("," name)*          1 .. kCardTextMax bytes each, since no card has a
//                                           longer name; blanks around a name are ignored
//   node-cards := {"version": 1, "profile": s, "profileProblem": s, "isolation": s,
//                  "policy": policy, "minimumCore": n, "minimumMemoryMiB": n,
//                  "partsOfOneCard": bool, "links": link*, "cards": [card*]}
//   card       := {"index": n, "uuid": s, "model": s, "memoryMiB": n, "corePercent": n,
//                  "numa": n, "health": "Healthy" | other, "since": RFC 3339 time}
//   link       := "-" no closer than the next ones, or not known | "n" on one NUMA node |
//                 "p" below one PCIe host bridge | the number of NVLinks between the two cards:
//                 "1" .. "9", "A" (10) .. "Z" (35 and more)
//                 of each card, in the order of their indices, with each card of a lower index:
//                 of the second card with the first, of the third with the first and the second
//                 strings have 1 .. kCardTextMax bytes, "profileProblem" 1 .. kProfileProblemMax;
//                 only "version", "cards", "index", "uuid", "model", "memoryMiB" and "health" are
//                 required; unknown members are ignored
//                 "partsOfOneCard": a container with parts of several cards does not start on the
//                 node; false if absent
//                 "corePercent" is the compute of the card that pods may hold in sum, 100 if
//                 absent: a reader that ignores it counts with 100, and never with more
//                 "numa": its NUMA node, absent if it is not known; a reader that ignores this and
//                 "links" chooses cards as on a node that does not have them
//                 "health": a card whose health begins with "reserved by profile " is reserved
//
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/card_links.h"
#include "common/contract/limits.h"

namespace mgpu {

// The condition of a node by which its device plugin shows that it runs.
inline constexpr std::string_view kReadyCondition = "MGPUReady";

inline constexpr std::string_view kDefaultResourceDomain = "vke.volcengine.com";

// All keys of one domain, which is that of --resource-domain.
struct Contract {
  // Errors: `domain` is not a DNS subdomain of at most kResourceDomainMax characters, or it is
  // reserved by Kubernetes ("kubernetes.io", "requests.").
  static Result<Contract> for_domain(std::string_view domain);

  std::string domain;
  std::string core_resource;
  std::string memory_resource;
  std::string assumed;
  std::string container_multiple_gpu;
  std::string policy;
  std::string gpu_model;
  std::string gpu_model_exclude;
  std::string gpu_uuid;
  std::string gpu_uuid_exclude;
  std::string gpu_links;
  std::string node_cards;
  std::string profile;  // a label of the node: the name of its profile
  std::string cordoned_cards;
  std::string needs_cpu;     // a taint
  std::string release;       // a label of the node: its device plugin does not use the driver
  std::string index_prefix;  // "<domain>/gpu-index-container-"

  std::string index_key(std::string_view container) const;
  // The type of the condition that the extender writes to change a pod's resourceVersion; its
  // message is a value that was never used before.
  std::string touched_condition() const { return domain + "/mgpu-bind-checked"; }
};

// --- values --------------------------------------------------------------------------------------

// REQUIRES: `cards` is not empty, strictly ascending, each within 0 .. kCardIndexMax.
std::string format_card_indices(std::span<const CardIndex> cards);
// Errors: empty, not numbers, out of range, not strictly ascending, more than kCardsPerNodeMax.
Result<std::vector<CardIndex>> parse_card_indices(std::string_view text);

// Errors: not numbers, more than kCardsPerNodeMax for one container.
Result<std::vector<std::int32_t>> parse_card_counts(std::string_view text);
// Errors: an entry without a name, the same name twice, and those.
Result<std::map<std::string, std::int32_t>> parse_named_card_counts(std::string_view text);

// Errors: an empty name, one of more than kCardTextMax bytes, more than kSelectorEntriesMax names.
Result<std::vector<std::string>> parse_names(std::string_view text);

// The annotations of a bound pod: `assumed`, and an index list for each container with cards.
// REQUIRES: container names of at most kContainerNameMax characters.
std::map<std::string, std::string> placement_annotations(
    const Contract& contract,
    const std::map<std::string, std::vector<CardIndex>>& cards_by_container);

// --- the cards of a node -------------------------------------------------------------------------

inline constexpr std::string_view kHealthy = "Healthy";
// The health of a card that its node's profile reserves begins with this.
inline constexpr std::string_view kReservedBy = "reserved by profile ";
// The health of a card whose MIG devices are cards of their own.
inline constexpr std::string_view kPartitioned = "MIG";

struct CardFacts {
  CardIndex index;
  CardUuid uuid;
  std::string model;
  MiB memory;
  std::string health = std::string(kHealthy);  // pods are only placed on kHealthy cards
  std::string since{};                         // the start of `health`, RFC 3339; may be empty
  // The compute that pods may hold in sum, kWholeCard .. kCardCoreMax.
  Percent core = kWholeCard;
  std::optional<std::int32_t> numa{};  // its NUMA node

  bool healthy() const { return health == kHealthy; }
  bool reserved() const { return health.starts_with(kReservedBy); }
  // Its MIG devices are cards of their own.
  bool partitioned() const { return health == kPartitioned; }
  Share capacity() const { return {core, memory}; }
  bool operator==(const CardFacts&) const = default;
};

// What a node requires of pods beside its cards: by its profile (plugin/cards/file/profile.h) and
// by its isolation.
struct NodeProfile {
  std::string name;
  std::string problem;    // why another profile than `name` was expected, one sentence
  std::string isolation;  // what limits memory on the node: "none", "intercept", "mps", "driver"
  std::string compute{};  // what limits compute: "burst", "fixed", "mps"; empty: nothing
  std::string policy;     // for pods that choose none; empty: the extender's default
  Share minimum;          // the least share of a card that a pod may request
  // A container with parts of several cards does not start here, whatever the profile is.
  bool parts_of_one_card = false;
  bool operator==(const NodeProfile&) const = default;
};

struct NodeCards {
  std::vector<CardFacts> cards;  // ascending by index
  NodeProfile profile;
  CardLinks links{};  // of `cards`, by their positions; empty: they are not known
  bool operator==(const NodeCards&) const = default;
};

// Errors: more than kCardsAnnotationBytesMax or kCardsPerNodeMax, not JSON, another version, a
// member that is absent or out of range, a duplicate index or uuid. The sentence names the card.
Result<NodeCards> parse_node_annotation(std::string_view json);
// The cards alone.
Result<std::vector<CardFacts>> parse_node_cards(std::string_view json);
// REQUIRES: `links` is empty, or of these cards in the order of their indices.
std::string format_node_cards(std::span<const CardFacts> cards, const NodeProfile& profile = {},
                              const CardLinks& links = {});

}  // namespace mgpu
