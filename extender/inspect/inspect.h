// JSON views of the ledger: which pods hold which cards, and why a pod does not fit.
//
// clang-format off
//
//   GET  <prefix>/cluster[?limit=N&after=NODE]   nodes, cards, totals, drift
//   GET  <prefix>/node?name=NODE                 one node with the pods on its cards
//   GET  <prefix>/pod?namespace=NS&name=POD      what a pod holds
//   GET  <prefix>/policy                         the default policy, and the learned workload
//   GET  <prefix>/explain?namespace=NS&name=POD[&limit=N&after=NODE]
//                                                whether a pod fits, for each node and card
//   POST <prefix>/explain[?limit=N&after=NODE]   the same for a Pod manifest (JSON); the pod need
//                                                not exist
//   POST <prefix>/simulate[?replicas=N&policy=P] where replicas of a Pod manifest would be placed
//                                                one after the other; nothing is changed
//
// Nodes are sorted by name and come in pages: "next" is the `after` of the next page, and absent on
// the last page. The default of `namespace` is "default".
//
//   cluster := {"totals": {"nodes", "cards", "core": amount, "memoryMiB": amount, "podsBound",
//                          "podsAssumed", "podsDrifting", "cardsOverfull", "expectedPlacements",
//                          "podsNominated"},
//               "nodes": [{"name", "problem"?, "cordoned"?, "taints"?, "partsOfOneCard"?,
//                          "profile"?: profile, "pods", "cards": [card*]}*], "next"?,
//               "drift": [held*]}                at most kInspectDriftMax
//   node    := {"name", "problem"?, "cordoned"?, "taints"?: ["key=value:Effect"*],
//               "partsOfOneCard"?, "profile"?: profile, "cards": [card*], "pods": [held*]}
//                                                cordoned: by its spec. taints: those that keep
//                                                pods away.
//                                                partsOfOneCard: true if it runs no containers with
//                                                parts of several cards
//   profile := {"name", "problem"?,              the name is empty without a profile
//               "isolation"?, "compute"?, "policy"?,
//               "minimum": {"core", "memoryMiB"}}   the least share of a card that pods may request
//   card    := {"index", "uuid", "model", "healthy", "uncertain", "cordoned",
//               "numa"?,                         its NUMA node
//               "links"?: [{"link", "cards": [index*]}*],   the best first, as nvidia-smi topo -m
//                                                names them, without SYS; absent: not known
//               "mig"?,                          it is a MIG device
//               "health"?,                       what is wrong with a card that is not healthy
//               "overfull"?, "overfullDetail"?,  more is in use than its capacity: which pods, what
//                                                to do
//               "core": amount, "memoryMiB": amount,
//               "pods"?}                         how many hold a share of it; in cluster only
//   amount  := {"capacity", "used", "free", "expected"}
//                                                expected: of pods between filter and bind
//                                                free: in totals without that of MIG devices
//   held    := {"namespace", "name", "uid", "node", "phase": "assumed" | "bound", "priority",
//               "drift"?, "driftDetail"?,
//               "containers": [{"name", "kind": "app" | "init" | "sidecar", "cards": [index*],
//                               "link"?,         the worst link between two of its cards
//                               "model"?}*],     of its cards
//               "holds": [{"card", "core", "memoryMiB"}*]}   without cards: the most, for each card
//   policy  := {"default", "policies": [name*], "podsSeen",
//               "prices"?: {"version", "ageSeconds", "kinds": [{"model", "memoryMiB"}*],
//                           "classes": [class*]}}   absent until a pod has been seen
//   class   := {"probability", "assumed"?,          assumed: no such pod has been seen
//               "cards", "core"?, "memoryMiB"?,     core and memory are of each card
//               "milliCPU", "hostMemoryMiB", "models"?, "modelsExcluded"?,
//               "gpus"?, "supplyPrice"?}            its GPUs, and its supply price (prices.h)
//   explain := {"namespace", "name", "node"?,       the node of a bound pod
//               "request": {"containers": [{"name", "kind", "cards", "core", "memoryMiB"?}*],
//                           "links"?},              "required" or "ignored"
//                                                   of each card; absent memory: whole cards
//               "policy"?,
//               "message"?,                         the pod is invalid, or a non-GPU pod, or not
//                                                   all nodes were examined
//               "notConsidered"?,                   rules of the pod that were not looked at
//               "group"?: {"name", "pods", "fitting", "pending"?},
//                                                   of a pod that fits alone: its group's pending
//                                                   pods, and how many like this one fit at the
//                                                   same time; pending: of the next one
//               "nodesFitting", "reasons": [{"reason", "nodes", "evictionCanHelp", "keptOut"?}*],
//                                                   of all nodes. keptOut: a cordon, a taint, or
//                                                   the pod's node selector or affinity
//               "nodesNotExamined"?,                the nodes that these do not include
//               of a pod that is not bound, about the nodes on which it does not fit:
//               "room": [{"container", "cards",     the most cards of one node with room for it
//                         "free"?: {"core", "memoryMiB"},     of the card that lacks the least
//                         "largest"?: {"core", "memoryMiB"}}*],   the largest card that matches
//               at most kNearestMax each, the nearest first:
//               "smallerRequests": [{"node", "container", "core", "memoryMiB"}*],
//                                                   it would fit with that much less of each card
//               "releases": [{"node", "pods": [{"namespace", "name"}*]}*],
//                                                   it would fit if these pods ended
//               "uncordons": [{"node", "cards": [index*]}*],
//                                                   it would fit if these cards were uncordoned
//               of a bound pod, as if it were not bound:
//               "now": {"nodesFitting", "rank"?, "best"?},  of its node by its policy
//               "pending"?: {"why", "help", "ways": [sentence*]},   of a pod that is not bound, in
//                                                   words; all ways to fit, of which the help has
//                                                   the nearest ones
//               "nodes": [{"name", "fits",
//                          "placement"?: [{"container", "cards": [index*], "link"?}*],
//                          "reason"?, "evictionCanHelp"?, "keptOut"?, "cpuOrMemoryMissing"?,
//                          "cards": [fit*]}*],
//               "next"?}
//   fit     := {"index", "container", "fits", "core": {"asked", "free"},
//               "memoryMiB": {"asked", "free"}, "why"?}   cards reserved for others are not free
//   simulate := {"namespace", "name", "policy", "replicas", "placed",  how many of the replicas fit
//               "fitting",                          how many fit in total
//               "message"?,                         it ended at a limit: more may fit
//               "notConsidered"?,                   as in explain
//               "placements": [{"node", "containers": [{"container", "cards": [index*]}*]}*],
//               "reasons": [{"reason", "nodes"}*],  why no more fit
//               "pending"?}                         as in explain, of the replica after the last
//
// clang-format on
//
// Nodes that are cordoned, whose taints the pod does not tolerate, or which its node selector or
// affinity excludes, take no pods, and no help is proposed on them. A simulation places pods by
// cards, CPU, main memory and the number of pods on the others. Other filters of kube-scheduler are
// not applied: notConsidered is a sentence about those that the pod has.
//
// Requests are answered one at a time, on a thread of their own. An explanation ends at
// kExplainStepsMax, kExplainTimeMax or kExplainRowsMax; "next" is then the last node that it has
// explained.
//
// Errors are {"error": sentence}: 400 for a malformed request, 404 for an unknown node or pod, 429
// where kInspectionsMax requests are being answered, 503 where the API server does not answer.
#pragma once

#include <functional>
#include <string>

#include "common/http/router.h"
#include "extender/verbs/verbs.h"

namespace mgpu {
class Executor;
namespace kube {
class Client;
}
}  // namespace mgpu

namespace mgpu::extender {

// How many pods of a group are pending, or 0. Called on the executor of the API server.
using CountGroup = std::function<std::size_t(const std::string& group)>;

// Adds the handlers under `prefix` ("/inspect"). They only read requests; the views are made on
// `executor`, which is neither that of the API server nor a thread of the HTTP server. What
// is referred to outlives the router, and is not used after its end, which waits for a view that
// is being made.
void add_routes(http::Router& router, const std::string& prefix, const VerbContext& context,
                kube::Client& client, Executor& executor, CountGroup count_group = {});

}  // namespace mgpu::extender
