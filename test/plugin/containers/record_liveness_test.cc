#include "plugin/containers/record_liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/support/gpu_objects.h"

namespace mgpu::plugin {
namespace {

struct Case {
  bool gone_at_api_server;
  bool kubelet_answered;
  bool at_kubelet;
  bool ended;
};

Record running() {
  return test::started(test::allocated(test::device_ids(10), "a"), "x", 0);
}

RecordLiveness presence(const Case& c) {
  return {.gone_at_api_server = [c](const PodUid&) { return c.gone_at_api_server; },
          .kubelet_answered = c.kubelet_answered,
          .at_kubelet = c.at_kubelet ? std::set<PodRef>{{"ml", "x"}} : std::set<PodRef>()};
}

TEST(RecordLiveness, AShareEndsWhenBothSaySo) {
  const Case cases[] = {{true, true, false, true},   {true, true, true, false},
                        {true, false, false, false}, {false, true, false, false},
                        {false, true, true, false},  {false, false, false, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.gone_at_api_server << c.kubelet_answered << c.at_kubelet);
    EXPECT_EQ(ended({running()}, presence(c)).size(), c.ended ? 1U : 0U);
    EXPECT_EQ(counting({running()}, presence(c)).size(), c.ended ? 0U : 1U);
  }
}

// kubelet gives names without uids.
TEST(RecordLiveness, AnotherPodOfTheNameDoesNotKeepTheShareOfTheOneThatIsGone) {
  for (const bool gone : {true, false}) {
    RecordLiveness remade = presence({gone, true, true, gone});
    remade.remade_at_api_server = [](const PodRef& pod, const PodUid& uid) {
      return pod == PodRef{"ml", "x"} && uid == PodUid("uid-x");
    };
    EXPECT_EQ(ended({running()}, remade).size(), gone ? 1U : 0U);
    remade.kubelet_answered = false;
    EXPECT_EQ(ended({running()}, remade).size(), 0U);
  }
}

TEST(RecordLiveness, AnAllocationThatHasNotStartedCounts) {
  const Record record = test::allocated(test::device_ids(10), "a");
  const RecordLiveness nobody = presence({true, true, false, true});
  EXPECT_THAT(counting({record}, nobody), testing::ElementsAre(record));
  EXPECT_THAT(ended({record}, nobody), testing::IsEmpty());
}

TEST(RecordLiveness, AsksForTheUidOfTheRecordsPod) {
  const RecordLiveness other = {
      .gone_at_api_server = [](const PodUid& uid) { return uid == PodUid("uid-y"); },
      .kubelet_answered = true,
      .at_kubelet = {}};
  const Record y = test::started(test::allocated(test::device_ids(10, 10), "b"), "y", 0);
  EXPECT_THAT(ended({running(), y}, other), testing::ElementsAre(y));
  EXPECT_THAT(counting({running(), y}, other), testing::ElementsAre(running()));
}

}  // namespace
}  // namespace mgpu::plugin
