#include "bench/trace/bookkeeping.h"

#include <gtest/gtest.h>

#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

Placement on(std::vector<int> cards) {
  Placement placement;
  auto& container = placement.cards_of.emplace_back();
  for (const int card : cards) container.push_back(CardIndex(card));
  return placement;
}

class BookkeepingTest : public testing::Test {
 protected:
  enum Pod : std::size_t { kHalf, kWhole, kTwo, kPlain, kT4Only, kLarge };

  const Trace trace_ = test::trace_of("n0 8000/1000 2xT4;n1 8000/1000 2xG2",
                                      "half 1000/100 1x600;whole 1000/100 1x1000;"
                                      "two 1000/100 2x1000;plain 5000/100;t4 0/0 1x100 T4;"
                                      "large 0/600");
  const Objects objects_{trace_, MemoryRule::kReference};
  Bookkeeping books_{objects_};
};

TEST_F(BookkeepingTest, KnowsWhatTheClusterHas) {
  EXPECT_EQ(books_.capacity_milli(), 4000);
  EXPECT_EQ(books_.allocated_milli(), 0);
}

TEST_F(BookkeepingTest, LetsPodsInWhereCpuAndMemoryAreEnough) {
  const extender::NodeResources all{extender::MilliCpu(8000), MiB(1000)};
  EXPECT_TRUE(books_.host_fits(0, all));
  EXPECT_FALSE(books_.host_fits(0, {extender::MilliCpu(8001), MiB(0)}));
  EXPECT_FALSE(books_.host_fits(0, {extender::MilliCpu(0), MiB(1001)}));
  books_.place(kPlain, 0, {});
  EXPECT_TRUE(books_.host_fits(0, {extender::MilliCpu(3000), MiB(900)}));
  EXPECT_FALSE(books_.host_fits(0, {extender::MilliCpu(3001), MiB(0)}));
  EXPECT_TRUE(books_.host_fits(1, all));
}

TEST_F(BookkeepingTest, CountsWhatCardsHold) {
  books_.place(kHalf, 0, on({1}));
  books_.place(kTwo, 1, on({0, 1}));
  EXPECT_EQ(books_.allocated_milli(), 2600);
  EXPECT_EQ(books_.overcommitted(), 0);
}

TEST_F(BookkeepingTest, GivesBackWhatEnds) {
  books_.place(kTwo, 1, on({0, 1}));
  books_.remove(kTwo, 1, on({0, 1}));
  EXPECT_EQ(books_.allocated_milli(), 0);
  books_.place(kTwo, 1, on({0, 1}));
  books_.place(kPlain, 1, {});
  EXPECT_EQ(books_.overcommitted(), 0);
}

TEST_F(BookkeepingTest, TellsOfACardWithoutTheCompute) {
  books_.place(kHalf, 0, on({0}));
  books_.place(kHalf, 0, on({0}));
  EXPECT_EQ(books_.overcommitted(), 1);
}

TEST_F(BookkeepingTest, TellsOfAWholeCardBesideAShare) {
  books_.place(kT4Only, 0, on({0}));
  books_.place(kWhole, 0, on({0}));
  EXPECT_EQ(books_.overcommitted(), 1);
}

TEST_F(BookkeepingTest, TellsOfANodeWithoutTheCpuOrTheMemory) {
  books_.place(kPlain, 0, {});
  books_.place(kPlain, 0, {});
  EXPECT_EQ(books_.overcommitted(), 1);
  books_.place(kLarge, 1, {});
  books_.place(kLarge, 1, {});
  EXPECT_EQ(books_.overcommitted(), 2);
}

TEST_F(BookkeepingTest, TellsOfCardsThatWereNotAskedFor) {
  books_.place(kTwo, 0, on({0}));
  EXPECT_EQ(books_.overcommitted(), 1) << "too few";
  books_.place(kHalf, 1, on({2}));
  EXPECT_EQ(books_.overcommitted(), 2) << "not there";
  books_.place(kT4Only, 1, on({0}));
  EXPECT_EQ(books_.overcommitted(), 3) << "another model";
  books_.place(kPlain, 1, on({1}));
  EXPECT_EQ(books_.overcommitted(), 4) << "none asked for";
  books_.place(kT4Only, 0, {});
  EXPECT_EQ(books_.overcommitted(), 5) << "none given";
}

TEST(Bookkeeping, TellsOfACardNamedTwice) {
  const Trace trace = test::trace_of("n0 8000/1000 2xT4", "two 0/0 2x100");
  const Objects objects(trace, MemoryRule::kNone);
  Bookkeeping books(objects);
  books.place(0, 0, on({1, 1}));
  EXPECT_EQ(books.overcommitted(), 1);
}

TEST(Bookkeeping, TellsOfACardWithoutTheMemory) {
  // Two halves of the compute, each with most of the memory.
  std::string pods;
  for (int i = 0; i < 50; ++i) pods += "p" + std::to_string(i) + " 0/0 1x500;";
  const Trace trace = test::trace_of("n0 8000/1000 1xT4", pods);
  const Objects objects(trace, MemoryRule::kReference);
  std::size_t largest = 0;
  for (std::size_t pod = 0; pod < trace.pods.size(); ++pod)
    if (objects.share_memory(pod) > objects.share_memory(largest)) largest = pod;
  ASSERT_GT(objects.share_memory(largest).value() * 2, objects.card_memory("T4").value());
  Bookkeeping books(objects);
  books.place(largest, 0, on({0}));
  EXPECT_EQ(books.overcommitted(), 0);
  books.place(largest, 0, on({0}));
  EXPECT_EQ(books.overcommitted(), 1);
}

}  // namespace
}  // namespace mgpu::trace
