// The input and output of the ledger as text, in the grammar of test/support/cluster_text.h.
//
//   facts_of("n1: 0[100/1000] 1[100/2000 unhealthy]")
//   bound_claim("a", "n1", "30/300 whole", "0 | 1")     uid and pod name "a"
//   used_text(ledger, "n1")                             "0=30/300 1=100/2000"
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "extender/ledger/ledger.h"
#include "test/support/cluster_text.h"

namespace mgpu::test {

extender::NodeFacts facts_of(std::string_view node);

// A claim that bind assumes; it has no cards yet.
extender::Claim unplaced_claim(std::string_view uid, std::string_view node,
                               std::string_view request);
// A claim from the watch.
extender::Claim bound_claim(std::string_view uid, std::string_view node, std::string_view request,
                            std::string_view placement);
// A bound claim whose cards are unknown, and the most that it may hold of one as well.
extender::Claim blocking_claim(std::string_view uid, std::string_view node);
// "none" or the name.
std::string text_of(std::optional<DriftKind> drift);
// A bound claim whose cards are unknown, of which it may hold at most this share each.
extender::Claim drifting_claim(std::string_view uid, std::string_view node, std::string_view most);

Instant at_ms(int milliseconds);

// The shares of each card, or "no node".
std::string used_text(const extender::Ledger& ledger, const char* node);
std::string expected_text(const extender::Ledger& ledger, const char* node);

// The chosen cards, or the sentence of the reason.
std::string assume_text(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                        std::string_view request);
// REQUIRES: the request fits.
extender::ClaimId assume_id(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                            std::string_view request, Instant now = {});

}  // namespace mgpu::test
