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
  enum Pod : std::size_t { kHalf, kWhole, kTwo, kNonGpu, kT4Only, kLarge };

  const Trace trace_ = test::trace_of("n0 8000/1000 2xT4;n1 8000/1000 2xG2",
                                      "half 1000/100 1x600;whole 1000/100 1x1000;"
                                      "two 1000/100 2x1000;plain 5000/100;t4 0/0 1x100 T4;"
                                      "large 0/600");
  const Objects objects_{trace_, MemoryRule::kReference};
  Bookkeeping bookkeeping_{objects_};
};

TEST_F(BookkeepingTest, SumsTheCapacityOfTheCluster) {
  EXPECT_EQ(bookkeeping_.capacity_milli(), 4000);
  EXPECT_EQ(bookkeeping_.allocated_milli(), 0);
}

TEST_F(BookkeepingTest, FitsPodsWithEnoughCpuAndMemory) {
  EXPECT_TRUE(bookkeeping_.sums_fit(0, kNonGpu));
  EXPECT_TRUE(bookkeeping_.sums_fit(0, kLarge));
  bookkeeping_.place(kNonGpu, 0, {});
  EXPECT_FALSE(bookkeeping_.sums_fit(0, kNonGpu)) << "5 of 8 CPUs are in use";
  EXPECT_TRUE(bookkeeping_.sums_fit(1, kNonGpu));
  bookkeeping_.place(kLarge, 1, {});
  EXPECT_FALSE(bookkeeping_.sums_fit(1, kLarge)) << "600 of 1000 MiB are in use";
}

TEST_F(BookkeepingTest, FitsPodsWhereAllCardsTogetherHaveEnough) {
  bookkeeping_.place(kHalf, 0, on({0}));
  EXPECT_TRUE(bookkeeping_.sums_fit(0, kWhole)) << "140 % of two cards are left";
  EXPECT_FALSE(bookkeeping_.sums_fit(0, kTwo));
  bookkeeping_.place(kHalf, 0, on({1}));
  EXPECT_FALSE(bookkeeping_.sums_fit(0, kWhole)) << "80 % are left";
  EXPECT_TRUE(bookkeeping_.sums_fit(0, kHalf)) << "though no card has them";
  EXPECT_TRUE(bookkeeping_.sums_fit(1, kTwo));
}

TEST_F(BookkeepingTest, CountsWhatCardsHold) {
  bookkeeping_.place(kHalf, 0, on({1}));
  bookkeeping_.place(kTwo, 1, on({0, 1}));
  EXPECT_EQ(bookkeeping_.allocated_milli(), 2600);
  EXPECT_EQ(bookkeeping_.overcommitted(), 0);
}

TEST_F(BookkeepingTest, ReleasesWhatATerminatedPodHeld) {
  bookkeeping_.place(kTwo, 1, on({0, 1}));
  bookkeeping_.remove(kTwo, 1, on({0, 1}));
  EXPECT_EQ(bookkeeping_.allocated_milli(), 0);
  bookkeeping_.place(kTwo, 1, on({0, 1}));
  bookkeeping_.place(kNonGpu, 1, {});
  EXPECT_EQ(bookkeeping_.overcommitted(), 0);
}

TEST_F(BookkeepingTest, CountsACardWithoutTheCompute) {
  bookkeeping_.place(kHalf, 0, on({0}));
  bookkeeping_.place(kHalf, 0, on({0}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 1);
}

TEST_F(BookkeepingTest, CountsAWholeCardBesideAShare) {
  bookkeeping_.place(kT4Only, 0, on({0}));
  bookkeeping_.place(kWhole, 0, on({0}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 1);
}

TEST_F(BookkeepingTest, CountsANodeWithoutTheCpuOrTheMemory) {
  bookkeeping_.place(kNonGpu, 0, {});
  bookkeeping_.place(kNonGpu, 0, {});
  EXPECT_EQ(bookkeeping_.overcommitted(), 1);
  bookkeeping_.place(kLarge, 1, {});
  bookkeeping_.place(kLarge, 1, {});
  EXPECT_EQ(bookkeeping_.overcommitted(), 2);
}

TEST_F(BookkeepingTest, CountsCardsThatWereNotAskedFor) {
  bookkeeping_.place(kTwo, 0, on({0}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 1) << "too few";
  bookkeeping_.place(kHalf, 1, on({2}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 2) << "not there";
  bookkeeping_.place(kT4Only, 1, on({0}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 3) << "another model";
  bookkeeping_.place(kNonGpu, 1, on({1}));
  EXPECT_EQ(bookkeeping_.overcommitted(), 4) << "it requests no card";
  bookkeeping_.place(kT4Only, 0, {});
  EXPECT_EQ(bookkeeping_.overcommitted(), 5) << "none given";
}

TEST(Bookkeeping, CountsACardNamedTwice) {
  const Trace trace = test::trace_of("n0 8000/1000 2xT4", "two 0/0 2x100");
  const Objects objects(trace, MemoryRule::kNone);
  Bookkeeping books(objects);
  books.place(0, 0, on({1, 1}));
  EXPECT_EQ(books.overcommitted(), 1);
}

TEST(Bookkeeping, CountsACardWithoutTheMemory) {
  // Each of two pods requests half of the compute and most of the memory.
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
