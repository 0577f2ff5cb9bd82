// What the ledger is fed, as text (the grammar of test/support/cluster_text.h), and what it
// answers.
//
//   facts_of("n1: 0[100/1000] 1[100/2000 unhealthy]")
//   bound_claim("a", "n1", "30/300 whole", "0 | 1")     uid and pod name "a"
//   used_text(ledger, "n1")                             "0=30/300 1=100/2000"
#pragma once

#include <string>
#include <string_view>

#include "extender/ledger/ledger.h"
#include "test/support/cluster_text.h"

namespace mgpu::test {

extender::NodeFacts facts_of(std::string_view node);

// As bind would assume it: without cards.
extender::Claim unplaced_claim(std::string_view uid, std::string_view node,
                               std::string_view request);
// As the watch would show it.
extender::Claim bound_claim(std::string_view uid, std::string_view node, std::string_view request,
                            std::string_view placement);
// Bound, and nobody knows to which cards.
extender::Claim blocking_claim(std::string_view uid, std::string_view node);

Instant at_ms(int milliseconds);

// Card by card; "no node" where there is none.
std::string used_text(const extender::Ledger& ledger, const char* node);
std::string expected_text(const extender::Ledger& ledger, const char* node);

// The cards chosen, or the reason's sentence.
std::string assume_text(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                        std::string_view request);
// REQUIRES: it fits.
extender::ClaimId assume_id(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                            std::string_view request, Instant now = {});

}  // namespace mgpu::test
