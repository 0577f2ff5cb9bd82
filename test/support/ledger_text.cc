#include "test/support/ledger_text.h"

#include <variant>

#include "common/base/check.h"
#include "extender/placement/policy.h"

namespace mgpu::test {
namespace {

using extender::Card;
using extender::Claim;

template <class Amount>
std::string by_card(const extender::Ledger& ledger, const char* name, Amount amount) {
  const auto view = ledger.reader().node(NodeName(name));
  if (!view) return "no node";
  std::string text;
  for (const Card& card : view->node.cards) {
    if (!text.empty()) text += " ";
    text += std::to_string(card.index.value()) + "=" + text_of(amount(card));
    if (card.uncertain) text += "?";
  }
  return text;
}

const extender::Policy& card_policy() {
  return *extender::find_policy(extender::kDefaultPolicy)->card;
}

}  // namespace

extender::NodeFacts facts_of(std::string_view text) {
  const extender::Node node = node_of(text);
  extender::NodeFacts facts;
  facts.name = node.name;
  for (const Card& card : node.cards) {
    CardFacts& added = facts.cards.emplace_back();
    added.index = card.index;
    added.uuid = card.uuid;
    added.model = card.model;
    added.memory = card.capacity.memory;
    if (!card.healthy) added.health = "Unhealthy";
    if (card.cordoned) facts.cordoned.push_back(card.index);
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
  claim.drift = DriftKind::kBindingWithoutCards;
  claim.drift_detail = "no annotation";
  return claim;
}

std::string text_of(std::optional<DriftKind> drift) {
  return drift ? std::string(to_string(*drift)) : "none";
}

Claim drifting_claim(std::string_view uid, std::string_view node, std::string_view most) {
  Claim claim = blocking_claim(uid, node);
  claim.most_of_one_card = share_of(most);
  return claim;
}

Instant at_ms(int milliseconds) {
  return Instant(Duration(milliseconds));
}

std::string used_text(const extender::Ledger& ledger, const char* node) {
  return by_card(ledger, node, [](const Card& card) { return card.used; });
}

std::string expected_text(const extender::Ledger& ledger, const char* node) {
  return by_card(ledger, node, [](const Card& card) { return card.expected; });
}

std::string assume_text(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                        std::string_view request) {
  const auto answer = ledger.assume(unplaced_claim(uid, node, request), card_policy(), Instant{});
  if (const auto* reason = std::get_if<extender::Reason>(&answer))
    return std::string(extender::sentence(*reason));
  return text_of(std::get<extender::Assumed>(answer).placement);
}

extender::ClaimId assume_id(extender::Ledger& ledger, std::string_view uid, std::string_view node,
                            std::string_view request, Instant now) {
  const auto answer = ledger.assume(unplaced_claim(uid, node, request), card_policy(), now);
  const auto* assumed = std::get_if<extender::Assumed>(&answer);
  MGPU_CHECK(assumed != nullptr, "the test expects it to fit");
  return assumed->id;
}

}  // namespace mgpu::test
