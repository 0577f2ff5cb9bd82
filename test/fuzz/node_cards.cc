// Feeds the annotation mgpu-cards of a node to its reader.
//
// Properties: those of cards.h; an error is one short sentence.
#include "common/contract/contract.h"
#include "test/fuzz/cards.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(node_cards) {
  const auto node = parse_node_annotation(input);
  if (node) return expect_node(*node);
  expect_sentence(node.error().message);
}

}  // namespace mgpu::fuzz
