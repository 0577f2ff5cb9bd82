// JSON views of the ledger: what is where, and why a pod waits.
//
//   GET  <prefix>/cluster[?limit=N&after=NODE]   nodes, cards, totals, drift
//   GET  <prefix>/node?name=NODE                 one node with the pods on its cards
//   GET  <prefix>/pod?namespace=NS&name=POD      what a pod holds
//   GET  <prefix>/policy                         the default policy, and what was learned of the
//                                                pods to come
//   GET  <prefix>/explain?namespace=NS&name=POD[&limit=N&after=NODE]
//                                                why a pod fits or not, per node and card
//   POST <prefix>/explain[?limit=N&after=NODE]   the same for a Pod manifest (JSON) that need not
//                                                exist
//
// Nodes come by name, a page at a time: "next" is there while there are more, and is the `after`
// of the next page. `namespace` is "default" where it is absent.
//
//   cluster := {"totals": {"nodes", "cards", "core": amount, "memoryMiB": amount, "podsBound",
//                          "podsAssumed", "podsDrifting", "cardsOverfull", "expectedPlacements"},
//               "nodes": [{"name", "problem"?, "pods", "cards": [card*]}*], "next"?,
//               "drift": [held*]}                kInspectDriftMax of them at most
//   node    := {"name", "problem"?, "cards": [card*], "pods": [held*]}
//   card    := {"index", "uuid", "model", "healthy", "uncertain",
//               "core": amount, "memoryMiB": amount}
//   amount  := {"capacity", "used", "free", "expected"}   expected: of pods between filter and bind
//   held    := {"namespace", "name", "uid", "node", "phase": "assumed" | "bound", "priority",
//               "drift"?, "driftDetail"?,
//               "containers": [{"name", "kind": "app" | "init" | "sidecar", "cards": [index*]}*],
//               "holds": [{"card", "core", "memoryMiB"}*]}
//   policy  := {"default", "policies": [name*], "podsSeen",
//               "price snapshot"?: {"version", "ageSeconds", "kinds": [{"model", "memoryMiB"}*],
//                           "classes": [class*]}}   no price snapshot: no pod has been seen yet
//   class   := {"probability", "cards", "core"?, "memoryMiB"?,   of each card
//               "milliCPU", "hostMemoryMiB", "models"?, "modelsExcluded"?,
//               "gpus"?, "supplyPrice"?}            GPUs it is worth, and GPUs taken off for plenty
//   explain := {"namespace", "name", "node"?,    where it is bound already
//               "request": {"containers": [{"name", "kind", "cards", "core", "memoryMiB"?}*]},
//                                                of each card; whole cards have no "memoryMiB"
//               "policy"?, "message"?,           why it is refused everywhere, or asks for no card
//               "nodesFitting", "reasons": [{"reason", "nodes", "evictionCanHelp"}*],
//                                                over all nodes
//               "nodes": [{"name", "fits", "placement"?: [{"container", "cards": [index*]}*],
//                          "reason"?, "evictionCanHelp"?, "cards": [fit*]}*], "next"?}
//   fit     := {"index", "container", "fits", "core": {"asked", "free"},
//               "memoryMiB": {"asked", "free"}, "why"?}
//
// Errors are {"error": sentence}: 400 for what is not a request, 404 for a node or pod that is not
// known, 503 where the API server does not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/http/router.h"
#include "extender/inspect/limits.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/verbs.h"

namespace mgpu::kube {
class Client;
}

namespace mgpu::extender {

// Adds the handlers under `prefix` ("/inspect"). All references outlive the router; when it has
// been destroyed none of them is used any more.
void add_routes(http::Router& router, const std::string& prefix, Ledger& ledger,
                const Settings& settings, kube::Client& client);

}  // namespace mgpu::extender
