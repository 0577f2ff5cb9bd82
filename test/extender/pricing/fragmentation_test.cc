#include "test/support/fragmentation.h"

#include <gtest/gtest.h>

#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::expected_fragmentation;
using test::fragmentation;
using test::node_of;
using test::request_of;

Node node_with(const char* text, std::int64_t milli_cpu, std::int64_t used = 0) {
  Node node = node_of(text);
  node.allocatable = {MilliCpu(milli_cpu), MiB(1)};
  node.resources_used = {MilliCpu(used), MiB()};
  return node;
}

// A class as the text of a request, empty for no cards.
PodClass class_of(const char* text, std::int64_t milli_cpu = 0,
                  std::vector<std::string> models = {}, std::vector<std::string> excluded = {}) {
  GpuRequest request = request_of(text);
  request.selector.models = std::move(models);
  request.selector.models_excluded = std::move(excluded);
  return classes_of(request, {MilliCpu(milli_cpu), MiB(1 << 20)}).front();
}

TEST(Fragmentation, IsWhatTheClassCannotUse) {
  // 400 + 1000 + 1000 thousandths are free.
  const char* node = "n: 0[40/100 of 1000] 1[100/1000] 2[100/1000] 3[0/0 of 1000]";
  struct {
    const char* what;
    double fragmentation;
  } const cases[] =
      {
          {"", 2400},  // a class without cards can use nothing
          {"30/100", 0},      {"40/100", 0},   {"41/100", 400},
          {"100/100", 400},   {"whole", 400},  {"wholex2", 400},
          {"wholex3", 2400},  // cannot be hosted
          {"41/100x3", 2400}, {"40/100x3", 0}, {"40/100x4", 2400},
          {"30/900", 0},  // memory is not considered
      };
  for (const auto& test : cases) {
    EXPECT_EQ(fragmentation(node_of(node), class_of(test.what)), test.fragmentation) << test.what;
  }
}

TEST(Fragmentation, IsAllThatIsFreeWhereCpuIsShort) {
  const char* cards = "n: 0[50/1000] 1[100/1000]";
  EXPECT_EQ(fragmentation(node_with(cards, 8000), class_of("60/1", 8000)), 500);
  EXPECT_EQ(fragmentation(node_with(cards, 8000), class_of("60/1", 8001)), 1500);
  EXPECT_EQ(fragmentation(node_with(cards, 8000, 3000), class_of("60/1", 5000)), 500);
  EXPECT_EQ(fragmentation(node_with(cards, 8000, 3001), class_of("60/1", 5000)), 1500);
  EXPECT_EQ(fragmentation(node_with(cards, 8000, 9000), class_of("60/1", 1)), 1500);
  EXPECT_EQ(fragmentation(node_with(cards, 8000, 9000), class_of("60/1", 0)), 500);
}

TEST(Fragmentation, CpuIsEnoughWhereItIsNotKnown) {
  const Node node = node_of("n: 0[50/1000] 1[100/1000]");
  EXPECT_EQ(fragmentation(node, class_of("60/1", std::int64_t{1} << 40)), 500);
}

TEST(Fragmentation, CountsCardsOfAnExcludedModel) {
  const Node node = node_of("n: 0[60/100 model=A100] 1[100/100 model=T4] 2[20/100 model=A100]");
  struct {
    std::vector<std::string> models;
    std::vector<std::string> excluded;
    double fragmentation;
  } const cases[] = {
      {{}, {}, 200},          {{"A100", "T4"}, {}, 200}, {{"A100"}, {}, 1200},
      {{"a100"}, {}, 1200},   {{}, {"t4"}, 1200},        {{"T4"}, {}, 800},
      {{"T4"}, {"T4"}, 1800}, {{"P100"}, {}, 1800},      {{}, {"A100", "T4"}, 1800},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(fragmentation(node, class_of("50/100", 0, test.models, test.excluded)),
              test.fragmentation)
        << testing::PrintToString(test.models) << testing::PrintToString(test.excluded);
  }
}

TEST(Fragmentation, FreeIsNeitherUsedNorExpectedOnUsableCards) {
  struct {
    const char* node;
    double fragmentation;  // for a class without cards, that is, all that is free
  } const cases[] = {
      {"n: 0[70/500 of 1000 expected=30/1]", 400}, {"n: 0[70/500 of 1000 expected=80/1]", 0},
      {"n: 0[100/1000 used=300/0] 1[10/1]", 100},  {"n: 0[100/1000 unhealthy] 1[10/1]", 100},
      {"n: 0[100/1000 uncertain] 1[10/1]", 100},   {"n:", 0},
  };
  for (const auto& test : cases)
    EXPECT_EQ(fragmentation(node_of(test.node), class_of("")), test.fragmentation) << test.node;
}

TEST(ExpectedFragmentation, IsTheMeanOfItsClasses) {
  const Node node = node_with("n: 0[40/1000] 1[100/1000]", 8000);
  const Workload workload{{{class_of("50/1", 1000), 0.5},    // 400
                           {class_of("whole", 9000), 0.25},  // 1400
                           {class_of(""), 0.125},            // 1400
                           {class_of("30/1"), 0.125}}};      // 0
  EXPECT_DOUBLE_EQ(expected_fragmentation(node, workload), 200 + 350 + 175);
}

TEST(ExpectedFragmentation, IsZeroForAnEmptyWorkload) {
  EXPECT_EQ(expected_fragmentation(node_of("n: 0[40/1000]"), {}), 0);
}

}  // namespace
}  // namespace mgpu::extender
