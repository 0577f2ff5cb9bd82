#include "plugin/agent/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/support/gpu_objects.h"

namespace mgpu::plugin {
namespace {

using test::card_facts;
using Ready = NodeReport::Ready;

InventoryState inventory(std::vector<CardFacts> cards) {
  return {.read = true, .problem = "", .cards = std::move(cards), .found = {}};
}

struct Case {
  InventoryState inventory;
  bool registered;
  Ready ready;
  const char* reason;
  const char* message;
};

TEST(Report, DescribesTheCards) {
  InventoryState no_driver;
  no_driver.problem = "libnvidia-ml.so.1 does not exist";
  InventoryState failed = inventory({card_facts(0), card_facts(1)});
  failed.problem = "NVML: timeout";
  const Case cases[] = {
      {no_driver, true, Ready::kFalse, "NoDriver", "libnvidia-ml.so.1 does not exist"},
      {failed, true, Ready::kUnknown, "CardsUnreadable", "NVML: timeout"},
      {inventory({}), true, Ready::kFalse, "NoCards", "this node has no cards"},
      {inventory({card_facts(0)}), false, Ready::kFalse, "KubeletAbsent",
       "kubelet has not registered the device plugin"},
      {inventory({card_facts(0, "MIG")}), true, Ready::kFalse, "NoHealthyCards",
       "none of 1 card is healthy; the first one: MIG"},
      {inventory({card_facts(0, "MIG"), card_facts(1, "XID 79")}), true, Ready::kFalse,
       "NoHealthyCards", "none of 2 cards is healthy; the first one: MIG"},
      {inventory({card_facts(0)}), true, Ready::kTrue, "CardsReady", "1 of 1 card is healthy"},
      {inventory({card_facts(0), card_facts(1)}), true, Ready::kTrue, "CardsReady",
       "2 of 2 cards are healthy"},
      {inventory({card_facts(0), card_facts(1, "Lost")}), true, Ready::kTrue, "SomeCardsUnhealthy",
       "1 of 2 cards is healthy"},
  };
  for (const Case& c : cases) {
    const auto report = report_of(c.inventory, {}, c.registered, false);
    EXPECT_EQ(report.ready, c.ready) << c.message;
    EXPECT_EQ(report.reason, c.reason);
    EXPECT_EQ(report.message, c.message);
    EXPECT_EQ(report.cards, c.inventory.cards);
  }
}

TEST(Report, HasTheLinksOfTheCards) {
  InventoryState linked = inventory({card_facts(0), card_facts(1)});
  linked.links = CardLinks::parse("2", 2).value();
  EXPECT_EQ(report_of(linked, {}, true, false).links, linked.links);
}

TEST(Report, HasTheMemoryOfHealthyCards) {
  const auto report =
      report_of(inventory({card_facts(0), card_facts(1, "XID 79")}), {}, true, false);
  EXPECT_EQ(report.memory, test::kCardMemory);
}

TEST(Report, HasTheMemoryThatPodsHoldOfUnhealthyCards) {
  const auto report = report_of(inventory({card_facts(0), card_facts(1, "XID 79")}),
                                {Percent(30), MiB(500)}, true, false);
  EXPECT_EQ(report.memory, test::kCardMemory + 500);
}

TEST(Report, OmitsMemoryIfKubeletPublishesIt) {
  EXPECT_EQ(report_of(inventory({card_facts(0)}), {}, true, true).memory, std::nullopt);
}

TEST(Report, KeepsTheKnownCardsIfTheDriverFails) {
  InventoryState failed = inventory({card_facts(0)});
  failed.problem = "NVML: timeout";
  EXPECT_EQ(report_of(failed, {}, true, false).memory, test::kCardMemory);
}

}  // namespace
}  // namespace mgpu::plugin
