// JSON views of the ledger: what is where, and why a pod waits. Documented in the README.
//
//   GET  <prefix>/cluster                            nodes, cards, totals, drift
//   GET  <prefix>/nodes/... as query: ?name=NODE     one node with the pods on its cards
//   GET  <prefix>/pod?namespace=NS&name=POD          what a bound pod holds
//   GET  <prefix>/explain?namespace=NS&name=POD      why a pod fits or not, per node and card
//   POST <prefix>/explain                            the same for a Pod manifest that need not
//   exist
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "extender/http/router.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/verbs.h"

namespace mgpu::kube {
class Client;
}

namespace mgpu::inspect {

// Adds the handlers under `prefix` ("/inspect"). All references outlive the router's use.
void add_routes(http::Router& router, const std::string& prefix, ledger::Ledger& ledger,
                const verbs::Settings& settings, kube::Client& client);

}  // namespace mgpu::inspect
