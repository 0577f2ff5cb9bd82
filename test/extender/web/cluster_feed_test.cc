#include "extender/web/cluster_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "extender/web/limits.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using FeedJson = nlohmann::json;

class Feed : public testing::Test {
 protected:
  void set_node(const std::string& text) { ledger.apply_node(test::facts_of(text.c_str())); }
  FeedJson next(std::uint64_t& from) {
    feed.update(Instant{});
    const auto changes = feed.after(from);
    from = changes.version;
    return FeedJson::parse(changes.json);
  }
  // The names in the member `nodes`.
  static std::set<std::string> names(const FeedJson& changes) {
    std::set<std::string> all;
    for (const FeedJson& node : changes["nodes"]) all.insert(node[0].get<std::string>());
    return all;
  }

  Ledger ledger;
  ClusterFeed feed{ledger.reader()};
  std::uint64_t version = 0;
};

TEST_F(Feed, BeginsWithAllNodes) {
  set_node("n1: 0[100/1000 model=A10 uuid=GPU-1] 1[100/2000 unhealthy uuid=GPU-2]");
  ledger.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  const FeedJson first = next(version);
  EXPECT_EQ(first["nodes"], FeedJson::parse(R"([["n1", "",
      [[0, "GPU-1", "A10", 1, 100, 30, 70, 0, 1000, 300, 700, 0, ""],
       [1, "GPU-2", "", 0, 100, 0, 0, 0, 2000, 0, 0, 0, "Unhealthy"]],
      [["default", "p", 1, 0, "", [[0, 30, 300]]]]]])"))
      << first.dump();
  EXPECT_EQ(first["removed"], FeedJson::array());
  EXPECT_EQ(version, feed.version());
}

TEST_F(Feed, MarksMigDevices) {
  set_node("n1: 0[100/1000] 1[100/2000 model=A100-MIG-1g.5gb]");
  const FeedJson first = next(version);
  EXPECT_EQ(first["nodes"][0][2][0][3], 1);
  EXPECT_EQ(first["nodes"][0][2][1][3], 17);
}

TEST_F(Feed, HasOnlyWhatHasChangedSince) {
  set_node("n1: 0[100/1000]");
  set_node("n2: 0[100/1000]");
  next(version);
  EXPECT_EQ(next(version)["nodes"], FeedJson::array());
  ledger.apply_pod(test::bound_claim("p", "n2", "30/300", "0"));
  EXPECT_EQ(names(next(version)), std::set<std::string>{"n2"});
}

TEST_F(Feed, HasAProblemThatChangesAlone) {
  set_node("n1: 0[100/1000]");
  next(version);
  NodeFacts facts = test::facts_of("n1: 0[100/1000]");
  facts.problem = "the list of cards must be a JSON object";
  ledger.apply_node(facts);
  EXPECT_EQ(next(version)["nodes"][0][1], facts.problem);
}

TEST_F(Feed, NamesRemovedNodesUnlessItBegins) {
  set_node("n1: 0[100/1000]");
  next(version);
  ledger.remove_node(NodeName("n1"));
  EXPECT_EQ(next(version)["removed"], FeedJson::array({"n1"}));
  std::uint64_t fresh = 0;
  EXPECT_EQ(next(fresh)["removed"], FeedJson::array());
  EXPECT_EQ(fresh, feed.version()) << "a page that begins has everything then";
}

TEST_F(Feed, HasANodeThatReturns) {
  set_node("n1: 0[100/1000]");
  next(version);
  ledger.remove_node(NodeName("n1"));
  next(version);
  set_node("n1: 0[100/1000]");
  const FeedJson changes = next(version);
  EXPECT_EQ(names(changes), std::set<std::string>{"n1"});
  EXPECT_EQ(changes["removed"], FeedJson::array());
}

TEST_F(Feed, BeginsAgainForAVersionThatItDoesNotHave) {
  set_node("n1: 0[100/1000]");
  feed.update(Instant{});
  const FeedJson changes = FeedJson::parse(feed.after(feed.version() + 1).json);
  EXPECT_EQ(changes["restart"], true);
  EXPECT_EQ(names(changes), std::set<std::string>{"n1"});
}

TEST_F(Feed, BeginsAgainAfterTooManyRemovedNodes) {
  set_node("stays: 0[100/1000]");
  next(version);
  for (std::size_t i = 0; i <= kWebRemovedNodesMax; ++i) {
    set_node("n" + std::to_string(i) + ": 0[100/1000]");
  }
  feed.update(Instant{});
  const std::uint64_t before = version;
  for (std::size_t i = 0; i <= kWebRemovedNodesMax; ++i) {
    ledger.remove_node(NodeName("n" + std::to_string(i)));
  }
  const FeedJson changes = next(version);
  EXPECT_EQ(changes["restart"], true);
  EXPECT_EQ(names(changes), std::set<std::string>{"stays"});
  EXPECT_GT(version, before);
  EXPECT_EQ(next(version).value("restart", false), false);
}

TEST_F(Feed, IsSentInPartsOfLimitedSize) {
  std::set<std::string> all;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "node-" + std::to_string(i);
    set_node(name + ": 0[100/1000] 1[100/1000] 2[100/1000] 3[100/1000]");
    all.insert(name);
  }
  std::set<std::string> seen;
  feed.update(Instant{});
  int parts = 0;
  for (; version != feed.version(); ++parts) {
    const auto changes = feed.after(version);
    EXPECT_LT(changes.json.size(), kWebPartBytes + 4096);
    ASSERT_GT(changes.version, version) << "no progress";
    version = changes.version;
    seen.merge(names(FeedJson::parse(changes.json)));
  }
  EXPECT_EQ(seen, all);
  EXPECT_GT(parts, 1);
}

TEST_F(Feed, EscapesTextOfOthers) {
  NodeFacts facts = test::facts_of("n1: 0[100/1000]");
  facts.cards[0].model = "\"\n\xff<b>\x01";
  ledger.apply_node(facts);
  feed.update(Instant{});
  const std::string json = feed.after(0).json;
  EXPECT_EQ(json.find('\n'), std::string::npos) << "a line end would end the event";
  EXPECT_EQ(FeedJson::parse(json)["nodes"][0][2][0][2], "\"\n\xEF\xBF\xBD<b>\x01");
}

}  // namespace
}  // namespace mgpu::extender
