// Feeds a Node to the reader of objects and to that of its cards.
//
// Properties: cards are ascending, within the limits, and none is there twice; the annotation that
// is written of them is read as equal; a node whose cards cannot be read has none and says why.
#include <set>
#include <string>

#include "common/contract/contract.h"
#include "common/kube/objects/object_json.h"
#include "extender/ledger/claim.h"
#include "test/fuzz/cards.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(node) {
  static const Contract kContract = *Contract::for_domain(kDefaultResourceDomain);
  const auto node = kube::read_node(input);
  if (!node) return expect_sentence(node.error().message);
  const extender::NodeFacts facts = extender::node_facts_of(*node, kContract);
  expect(facts.name.str() == node->metadata.name, "a node has its name");
  expect(facts.pods_allowed >= 0, "a number of pods is not negative");
  if (!facts.problem.empty()) {
    expect_sentence(facts.problem);
    expect(facts.cards.empty(), "a node whose cards cannot be read has none");
  }
  if (node->metadata.annotations.contains(kContract.node_cards)) return expect_cards(facts.cards);
  for (const CardFacts& card : facts.cards) {
    expect(card.memory <= MiB(kCardMemoryMiBMax), "a card has up to 16 TiB");
  }
  expect(facts.cards.size() <= kCardsPerNodeMax, "a node has up to 64 cards");
}

}  // namespace mgpu::fuzz
