#include "bench/trace/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/gpu_request.h"
#include "extender/ledger/claim.h"
#include "test/bench/trace/small_trace.h"

namespace mgpu::trace {
namespace {

using test::trace_of;
using testing::ElementsAre;
using testing::IsEmpty;

const char* const kTwoModels = "n0 64000/262144 2xT4;n1 96000/393216 1xG2;n2 8000/1000 1xH9";

GpuRequest request_of(const Objects& objects, std::size_t pod) {
  auto request = read_request(objects.pod(pod, "u"), objects.contract(), MiB(1));
  EXPECT_TRUE(request) << (request ? "" : request.error().message);
  return *request;
}

TEST(Objects, AskForWholeCardsWithoutMemory) {
  const Trace trace = trace_of(kTwoModels, "p 4000/100 2x1000");
  const GpuRequest request = request_of(Objects(trace, MemoryRule::kReference), 0);
  ASSERT_EQ(request.containers.size(), 1U);
  EXPECT_EQ(request.containers[0].cards, 2);
  EXPECT_TRUE(request.containers[0].whole);
}

TEST(Objects, AskForASharesPercentOfOneCard) {
  const Trace trace = trace_of(kTwoModels, "p 4000/100 1x470 T4|G2");
  const GpuRequest request = request_of(Objects(trace, MemoryRule::kNone), 0);
  EXPECT_EQ(request.containers[0].cards, 1);
  EXPECT_EQ(request.containers[0].per_card, (Share{Percent(47), MiB(1)}));
  EXPECT_FALSE(request.containers[0].whole);
  EXPECT_THAT(request.selector.models, ElementsAre("T4", "G2"));
}

TEST(Objects, AskForSharesOfSeveralCards) {
  const Trace trace = trace_of(kTwoModels, "p 4000/100 4x250");
  const GpuRequest request = request_of(Objects(trace, MemoryRule::kNone), 0);
  EXPECT_EQ(request.containers[0].cards, 4);
  EXPECT_EQ(request.containers[0].per_card, (Share{Percent(25), MiB(1)}));
}

TEST(Objects, AskForNoCardsWhereTheTraceDoesNot) {
  const Trace trace = trace_of(kTwoModels, "p 4000/100;q 1/1 1x1000");
  const Objects objects(trace, MemoryRule::kReference);
  EXPECT_TRUE(request_of(objects, 0).empty());
  EXPECT_TRUE(objects.share_memory(0).zero());
}

TEST(Objects, CarryHostAmountsAndTheUid) {
  const Trace trace = trace_of(kTwoModels, "p 4001/103 1x1000");
  const kube::Pod pod = Objects(trace, MemoryRule::kNone).pod(0, "p-42-7");
  EXPECT_EQ(extender::resources_of(pod),
            (extender::NodeResources{extender::MilliCpu(4001), MiB(103)}));
  EXPECT_EQ(pod.metadata.uid, "p-42-7");
  EXPECT_EQ(pod.node_name, "");
}

TEST(Objects, MakeNodesOfTheirCardsAndHostAmounts) {
  const Trace trace = trace_of(kTwoModels, "p 1/1 1x1000");
  const auto facts = Objects(trace, MemoryRule::kReference).node_facts(0, NodeName("1234-n0"));
  EXPECT_EQ(facts.name, NodeName("1234-n0"));
  EXPECT_EQ(facts.allocatable, (extender::NodeResources{extender::MilliCpu(64000), MiB(262144)}));
  ASSERT_EQ(facts.cards.size(), 2U);
  EXPECT_EQ(facts.cards[1].index, CardIndex(1));
  EXPECT_EQ(facts.cards[1].model, "T4");
  EXPECT_EQ(facts.cards[1].memory, MiB(15109));
  EXPECT_NE(facts.cards[0].uuid, facts.cards[1].uuid);
  EXPECT_TRUE(facts.problem.empty());
}

// --- memory --------------------------------------------------------------------------------------

TEST(MemoryNone, LeavesRoomForMoreSharesThanACardHas) {
  const Trace trace = trace_of(kTwoModels, "p 1/1 1x10");
  const Objects objects(trace, MemoryRule::kNone);
  EXPECT_GT(objects.card_memory("T4").value(), 100 * objects.share_memory(0).value());
  EXPECT_EQ(objects.card_memory("T4"), objects.card_memory("unheard of"));
}

TEST(MemoryReference, GivesCardsWhatTheirModelHas) {
  const Trace trace = trace_of(kTwoModels, "p 1/1 1x1000");
  const Objects objects(trace, MemoryRule::kReference);
  EXPECT_EQ(objects.card_memory("G2"), MiB(20000));
  EXPECT_EQ(objects.card_memory("G3"), MiB(30000));
  EXPECT_EQ(objects.card_memory("T4"), MiB(15109));
  EXPECT_EQ(objects.card_memory("P100"), MiB(16280));
  EXPECT_EQ(objects.card_memory("V100M16"), MiB(16160));
  EXPECT_EQ(objects.card_memory("V100M32"), MiB(32510));
  EXPECT_EQ(objects.card_memory("A10"), MiB(22731));
  EXPECT_EQ(objects.card_memory("H9"), MiB(16384));
}

Trace many_shares(std::int32_t milli, const std::string& models) {
  std::string pods;
  for (int i = 0; i < 200; ++i)
    pods += "p" + std::to_string(i) + " 1/1 1x" + std::to_string(milli) + " " + models + ";";
  return trace_of(kTwoModels, pods);
}

std::map<std::int64_t, int> memories_of(const Trace& trace) {
  const Objects objects(trace, MemoryRule::kReference);
  std::map<std::int64_t, int> memories;
  for (std::size_t pod = 0; pod < trace.pods.size(); ++pod)
    ++memories[objects.share_memory(pod).value()];
  return memories;
}

TEST(MemoryReference, AsksForAHalfToOneAndAHalfOfTheShareInWholeSteps) {
  std::vector<std::int64_t> found;
  for (const auto& [memory, pods] : memories_of(many_shares(500, ""))) {
    found.push_back(memory);
    EXPECT_GT(pods, 20) << memory;
  }
  // 8192 MiB times 0.5, 0.75, 1, 1.25 and 1.5.
  EXPECT_THAT(found, ElementsAre(4096, 6144, 8192, 10240, 12288));
}

TEST(MemoryReference, RoundsUp) {
  // 1 % is 163.84 MiB, and one and a half of it 245.76.
  for (const auto& [memory, pods] : memories_of(many_shares(10, ""))) EXPECT_EQ(memory, 256);
  // 2 % is 327.68 MiB: half of it 163.84, three quarters 245.76, the whole and more over 256.
  for (const auto& [memory, pods] : memories_of(many_shares(20, "")))
    EXPECT_TRUE(memory == 256 || memory == 512) << memory;
}

TEST(MemoryReference, AsksForNoMoreThanTheSmallestCardThatWillDoHas) {
  EXPECT_EQ(memories_of(many_shares(990, "")).rbegin()->first, 59 * 256);  // T4, 15109
  EXPECT_EQ(memories_of(many_shares(990, "G2|T4")).rbegin()->first, 59 * 256);
  EXPECT_EQ(memories_of(many_shares(990, "G2")).rbegin()->first, 64 * 256);  // all of 16384
  EXPECT_EQ(memories_of(many_shares(990, "H9")).rbegin()->first, 64 * 256);
}

TEST(MemoryReference, IsThePodsOwnWhereverItStands) {
  const Trace trace = trace_of(kTwoModels, "a 1/1 1x500;b 1/1 1x500;c 1/1 1x500");
  const Trace other = trace_of(kTwoModels, "c 9/9 1x500;a 9/9 1x500");
  const Objects objects(trace, MemoryRule::kReference);
  const Objects others(other, MemoryRule::kReference);
  EXPECT_EQ(objects.share_memory(0), others.share_memory(1));
  EXPECT_EQ(objects.share_memory(2), others.share_memory(0));
}

TEST(MemoryReference, MakesRequestsThatTheContractTakes) {
  const Trace trace = many_shares(730, "G2");
  const Objects objects(trace, MemoryRule::kReference);
  for (std::size_t pod = 0; pod < trace.pods.size(); ++pod)
    EXPECT_EQ(request_of(objects, pod).containers[0].per_card,
              (Share{Percent(73), objects.share_memory(pod)}));
}

}  // namespace
}  // namespace mgpu::trace
