// Feeds the annotation mgpu-cards of a node to its reader.
//
// Properties: those of cards.h; an error is one short sentence.
#include "common/contract/contract.h"
#include "test/fuzz/cards.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(node_cards) {
  const auto cards = parse_node_cards(input);
  if (cards) return expect_cards(*cards);
  expect_sentence(cards.error().message);
}

}  // namespace mgpu::fuzz
