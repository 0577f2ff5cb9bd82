#include "extender/placement/place.h"

#include <gtest/gtest.h>

#include <string>

#include "common/limits.h"
#include "extender/placement/policies/binpack.h"
#include "extender/placement/policies/spread.h"
#include "test/support/cluster_text.h"

namespace mgpu::placement {
namespace {

using test::node_of;
using test::request_of;
using test::text_of;

// The cards, or the reason's sentence.
std::string placed(const std::string& node, const std::string& request, const Policy& policy) {
  SearchBudget budget{limits::kPlacementStepsMax};
  const auto result = place(node_of(node), request_of(request), policy, budget);
  if (const auto* reason = std::get_if<Reason>(&result)) return std::string(sentence(*reason));
  const auto& found = std::get<Placed>(result);
  return text_of(found.placement) + (found.beside_expected ? "" : " on expected");
}

struct PlaceCase {
  const char* node;
  const char* request;
  const char* binpack;
  const char* spread;
};

TEST(Place, ChoosesTheCardsThatThePolicyRanksBest) {
  const PlaceCase cases[] = {
      // An empty card, then one begun.
      {"n: 0[100/1000] 1[60/600 of 1000]", "30/300", "1", "0"},
      // The fuller of two begun cards.
      {"n: 0[60/600 of 1000] 1[50/500 of 1000]", "30/300", "1", "0"},
      // Ties go to the lower index.
      {"n: 0[100/1000] 1[100/1000]", "30/300", "0", "0"},
      // The fuller one has no room.
      {"n: 0[60/600 of 1000] 1[20/900 of 1000]", "30/300", "0", "0"},
      {"n: 0[100/1000] 1[60/600 of 1000] 2[70/700 of 1000]", "30/300x2", "1,2", "0,2"},
      {"n: 0[99/1000 of 1000] 1[100/1000] 2[100/1000]", "wholex2", "1,2", "1,2"},
      // Whole cards of other sizes.
      {"n: 0[100/1000] 1[100/2000]", "whole whole", "0 | 1", "0 | 1"},
      // Containers of one pod share or part.
      {"n: 0[100/1000] 1[100/1000]", "30/300 30/300", "0 | 0", "0 | 1"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(placed(test.node, test.request, kBinpack), test.binpack) << test.node;
    EXPECT_EQ(placed(test.node, test.request, kSpread), test.spread) << test.node;
  }
}

}  // namespace
}  // namespace mgpu::placement
