// Expected placements: they cause no refusals, are bounded, and leave nothing behind.
#include <gtest/gtest.h>

#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::assume_id;
using test::assume_text;
using test::at_ms;
using test::bound_claim;
using test::expected_text;
using test::facts_of;
using test::used_text;

class ExpectationTest : public testing::Test {
 protected:
  ExpectationTest() { ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]")); }

  void expect(const std::string& uid, const char* node, const char* request, const char* placement,
              Instant now = at_ms(0), Instant until = at_ms(1000)) {
    ledger.reservations().expect(PodUid(uid), NodeName(node), test::request_of(request),
                                 test::placement_of(placement), now, until);
  }
  std::string expected_at(Instant now) {
    ledger.reader().read(now, [](const View&) {});
    return expected_text(ledger, "n1");
  }

  Ledger ledger;
};

TEST_F(ExpectationTest, CountsAsExpectedAndNotAsUsed) {
  expect("a", "n1", "30/300 whole", "0 | 1");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=30/300 1=100/1000");
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(ledger.reader().counts().expected, 1u);
}

TEST_F(ExpectationTest, NeverMakesAnAssumeFail) {
  expect("a", "n1", "wholex2", "0,1");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "wholex2"), "0,1");
}

TEST_F(ExpectationTest, EndsAtItsTimeAndNotBefore) {
  expect("a", "n1", "30/300", "0", at_ms(0), at_ms(100));
  expect("b", "n1", "20/200", "0", at_ms(0), at_ms(50));
  EXPECT_EQ(expected_at(at_ms(49)), "0=50/500 1=0/0");
  EXPECT_EQ(expected_at(at_ms(50)), "0=30/300 1=0/0");
  EXPECT_EQ(expected_at(at_ms(100)), "0=0/0 1=0/0");
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(ExpectationTest, OneThatHasEndedIsNotAdded) {
  expect("a", "n1", "30/300", "0", at_ms(100), at_ms(100));
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(ExpectationTest, NewOneReplacesThePodsOld) {
  expect("a", "n1", "30/300", "0");
  expect("a", "n1", "30/300", "1");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=30/300");
  // Also where the new one is for an unknown node.
  expect("a", "n2", "30/300", "1");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ExpectationTest, EndsWithThePodsBind) {
  expect("a", "n1", "30/300", "0");
  assume_id(ledger, "a", "n1", "30/300");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ExpectationTest, EndsWithThePodsBindEvenWhereThatIsRefused) {
  expect("a", "n1", "30/300", "0");
  assume_text(ledger, "a", "n2", "30/300");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ExpectationTest, DoesNotAffectItsOwnPod) {
  ledger.apply_pod(bound_claim("x", "n1", "50/500", "1"));
  expect("a", "n1", "50/500", "1");
  // Binpack takes the card in use, which its own expected placement would fill.
  EXPECT_EQ(assume_text(ledger, "a", "n1", "50/500"), "1");
}

TEST_F(ExpectationTest, OtherPodsLeaveRoomForIt) {
  ledger.apply_pod(bound_claim("x", "n1", "50/500", "1"));
  expect("a", "n1", "50/500", "1");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "50/500"), "0");
}

TEST_F(ExpectationTest, EndsWhenThePodIsSeenBoundOrDeleted) {
  expect("a", "n1", "30/300", "0");
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
  expect("b", "n1", "30/300", "0");
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
  expect("c", "n1", "30/300", "0");
  std::vector<Claim> listed;
  listed.push_back(bound_claim("c", "n1", "30/300", "0"));
  ledger.replace_pods(std::move(listed));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ExpectationTest, EndsOnRequest) {
  expect("a", "n1", "30/300", "0");
  ledger.reservations().end_expectation(PodUid("a"));
  ledger.reservations().end_expectation(PodUid("a"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ExpectationTest, EndsWhenTheNodesCardsChange) {
  ledger.apply_node(facts_of("n2: 0[100/1000]"));
  expect("a", "n1", "whole", "0");
  expect("b", "n2", "whole", "0");
  ledger.apply_node(facts_of("n1: 0[100/2000] 1[100/1000]"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(expected_text(ledger, "n2"), "0=100/1000");
  ledger.remove_node(NodeName("n2"));
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(ExpectationTest, StaysWhenTheNodeIsSeenUnchanged) {
  expect("a", "n1", "30/300", "0");
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(ExpectationTest, UnknownCardsAndNodesAreSkipped) {
  expect("a", "n1", "30/300x2", "1,7");
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=30/300");
  ledger.reservations().end_expectation(PodUid("a"));
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=0/0");
  expect("b", "n9", "30/300", "0");
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(ExpectationTest, AtTheLimitTheFirstToEndIsRemoved) {
  expect("first", "n1", "30/300", "1", at_ms(0), at_ms(999));
  for (std::size_t i = 1; i < kExpectedPlacementsMax; ++i)
    expect("p" + std::to_string(i), "n1", "1/1", "0");
  EXPECT_EQ(ledger.reader().counts().expected, kExpectedPlacementsMax);
  expect("last", "n1", "1/1", "0");
  EXPECT_EQ(ledger.reader().counts().expected, kExpectedPlacementsMax);
  EXPECT_EQ(expected_text(ledger, "n1"), "0=4096/4096 1=0/0");
}

}  // namespace
}  // namespace mgpu::extender
