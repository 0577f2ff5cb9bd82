#include "extender/bind/posted_bindings.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

const PodUid kPod("a");
const PodUid kOther("b");

TEST(PostedBindings, AreUnsettledUntilTheyAreAccepted) {
  PostedBindings posted;
  EXPECT_FALSE(posted.has_unsettled(kPod));
  posted.add(1, kPod, {});
  EXPECT_TRUE(posted.has_unsettled(kPod));
  EXPECT_FALSE(posted.has_unsettled(kOther));
  posted.at(1).accepted = true;
  EXPECT_FALSE(posted.has_unsettled(kPod));
}

TEST(PostedBindings, APodIsUnsettledWhileOneOfItsBindingsIs) {
  PostedBindings posted;
  posted.add(1, kPod, {.accepted = true});
  posted.add(2, kPod, {});
  posted.add(3, kPod, {.accepted = true});
  EXPECT_TRUE(posted.has_unsettled(kPod));
  posted.erase(3);
  EXPECT_TRUE(posted.has_unsettled(kPod));
  posted.erase(2);
  EXPECT_FALSE(posted.has_unsettled(kPod));
  EXPECT_TRUE(posted.contains(1));
}

// The API server lost an accepted binding, as when etcd is restored.
TEST(PostedBindings, AnAcceptedOneCanBecomeUnsettledAgain) {
  PostedBindings posted;
  posted.add(1, kPod, {.accepted = true});
  posted.at(1).accepted = false;
  EXPECT_TRUE(posted.has_unsettled(kPod));
}

TEST(PostedBindings, AClaimWithoutOneIsIgnored) {
  PostedBindings posted;
  posted.add(1, kPod, {});
  posted.erase(2);
  EXPECT_EQ(posted.size(), 1u);
  EXPECT_TRUE(posted.has_unsettled(kPod));
}

TEST(PostedBindings, ErasedOnesAreNotFoundByThePodEither) {
  PostedBindings posted;
  for (ClaimId claim = 1; claim <= 100; ++claim) {
    posted.add(claim, claim % 2 == 0 ? kPod : kOther, {.in_progress = claim > 50});
  }
  posted.erase_if(
      [](ClaimId claim, const PostedBinding& one) { return claim % 2 == 0 || !one.in_progress; });
  EXPECT_EQ(posted.size(), 25u);
  EXPECT_FALSE(posted.has_unsettled(kPod));
  EXPECT_TRUE(posted.has_unsettled(kOther));
}

}  // namespace
}  // namespace mgpu::extender
