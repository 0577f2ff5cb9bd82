#include "test/support/ledger_text.h"

#include <variant>

#include "common/base/check.h"
#include "extender/placement/policy.h"

namespace mgpu::test {
namespace {

using ledger::Claim;
using placement::Card;

template <class Amount>
std::string by_card(const ledger::Ledger& ledger, const char* name, Amount amount) {
  const auto view = ledger.node(NodeName(name));
  if (!view) return "no node";
  std::string text;
  for (const Card& card : view->node.cards) {
    if (!text.empty()) text += " ";
    text += std::to_string(card.index.value()) + "=" + text_of(amount(card));
    if (card.uncertain) text += "?";
  }
  return text;
}

const placement::Policy& card_policy() {
  return *placement::find_policy(placement::kDefaultPolicy)->card;
}

}  // namespace

ledger::NodeFacts facts_of(std::string_view text) {
  const placement::Node node = node_of(text);
  ledger::NodeFacts facts;
  facts.name = node.name;
  for (const Card& card : node.cards) {
    CardFacts& added = facts.cards.emplace_back();
    added.index = card.index;
    added.uuid = card.uuid;
    added.model = card.model;
    added.memory = card.capacity.memory;
    if (!card.healthy) added.health = "Unhealthy";
  }
  return facts;
}

Claim unplaced_claim(std::string_view uid, std::string_view node, std::string_view request) {
  Claim claim;
  claim.pod = {"default", std::string(uid)};
  claim.uid = PodUid(uid);
  claim.node = NodeName(node);
  claim.request = request_of(request);
  return claim;
}

Claim bound_claim(std::string_view uid, std::string_view node, std::string_view request,
                  std::string_view placement) {
  Claim claim = unplaced_claim(uid, node, request);
  claim.placement = placement_of(placement);
  return claim;
}

Claim blocking_claim(std::string_view uid, std::string_view node) {
  Claim claim = unplaced_claim(uid, node, "30/300");
  claim.drift = ledger::Drift::kNoAnnotations;
  claim.drift_detail = "no annotation";
  return claim;
}

Instant at_ms(int milliseconds) {
  return Instant(Duration(milliseconds));
}

std::string used_text(const ledger::Ledger& ledger, const char* node) {
  return by_card(ledger, node, [](const Card& card) { return card.used; });
}

std::string expected_text(const ledger::Ledger& ledger, const char* node) {
  return by_card(ledger, node, [](const Card& card) { return card.expected; });
}

std::string assume_text(ledger::Ledger& ledger, std::string_view uid, std::string_view node,
                        std::string_view request) {
  const auto answer = ledger.assume(unplaced_claim(uid, node, request), card_policy(), Instant{});
  if (const auto* reason = std::get_if<placement::Reason>(&answer))
    return std::string(placement::sentence(*reason));
  return text_of(std::get<ledger::Assumed>(answer).placement);
}

ledger::ClaimId assume_id(ledger::Ledger& ledger, std::string_view uid, std::string_view node,
                          std::string_view request, Instant now) {
  const auto answer = ledger.assume(unplaced_claim(uid, node, request), card_policy(), now);
  const auto* assumed = std::get_if<ledger::Assumed>(&answer);
  MGPU_CHECK(assumed != nullptr, "the test expects it to fit");
  return assumed->id;
}

}  // namespace mgpu::test
