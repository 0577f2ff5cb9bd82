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

RecordLiveness liveness(const Case& c) {
  RecordLiveness made{.gone_at_api_server = [c](const PodUid&) { return c.gone_at_api_server; },
                      .finished_at_api_server = [](const PodUid&) { return false; },
                      .replaced_at_api_server = [](const PodRef&, const PodUid&) { return false; },
                      .at_kubelet = {},
                      .checkpointed = {},
                      .has_processes = [](const PodUid&) { return false; },
                      .sees_processes = [] { return true; }};
  if (c.kubelet_answered) made.at_kubelet.emplace();
  if (c.kubelet_answered && c.at_kubelet) (*made.at_kubelet)[{"ml", "x"}] = {running().devices};
  return made;
}

DeviceSet devices(int first) {
  return DeviceSet::of(test::device_ids(10, first)).value();
}

TEST(RecordLiveness, AShareEndsWhenBothReportIt) {
  const Case cases[] = {{true, true, false, true},   {true, true, true, false},
                        {true, false, false, false}, {false, true, false, false},
                        {false, true, true, false},  {false, false, false, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.gone_at_api_server << c.kubelet_answered << c.at_kubelet);
    EXPECT_EQ(liveness(c).ended(running()), c.ended);
    EXPECT_EQ(liveness(c).without_ended({running()}).size(), c.ended ? 0U : 1U);
  }
}

// kubelet lists names without UIDs. The pod of the record has devices(0), and devices(10) for
// another container; the new pod of its name has devices(20).
TEST(RecordLiveness, APodWhoseNameWasTakenHasEndedWhenKubeletDoesNotListItsDevices) {
  struct Replaced {
    const char* what;
    std::set<DeviceSet> listed;
    std::optional<std::map<PodUid, std::set<DeviceSet>>> checkpointed;
    bool ended;
  };
  const PodUid old("uid-x");
  const PodUid other("uid-other");
  const Replaced cases[] = {
      {"kubelet runs the new pod", {devices(20)}, {{{other, {devices(20)}}}}, true},
      {"the checkpoint still has the ended pod",
       {devices(20)},
       {{{old, {devices(0)}}, {other, {devices(20)}}}},
       true},
      {"the new pod got the same devices", {devices(0)}, {{{other, {devices(0)}}}}, true},
      {"kubelet still runs the pod", {devices(0)}, {{{old, {devices(0)}}}}, false},
      // kubelet does not list an init container.
      {"kubelet still runs another container of the pod",
       {devices(10)},
       {{{old, {devices(0), devices(10)}}}},
       false},
      {"no checkpoint, the devices are listed", {devices(0), devices(20)}, {}, false},
      {"no checkpoint, the devices are not listed", {devices(20)}, {}, true},
  };
  for (const Replaced& c : cases) {
    SCOPED_TRACE(c.what);
    for (const bool gone : {true, false}) {
      RecordLiveness replaced = liveness({gone, true, false, false});
      (*replaced.at_kubelet)[{"ml", "x"}] = c.listed;
      replaced.checkpointed = c.checkpointed;
      replaced.replaced_at_api_server = [](const PodRef& pod, const PodUid& uid) {
        return pod == PodRef{"ml", "x"} && uid == PodUid("uid-x");
      };
      EXPECT_EQ(replaced.ended(running()), gone && c.ended);
      replaced.at_kubelet.reset();
      EXPECT_FALSE(replaced.ended(running()));
    }
  }
}

// kubelet lists such pods before Kubernetes 1.34.
TEST(RecordLiveness, AFinishedPodEndsWithItsProcesses) {
  struct Finished {
    const char* what;
    bool has_processes, sees_processes, ended;
  };
  const Finished cases[] = {
      {"its processes have ended", false, true, true},
      {"it was reported as failed while its node was away", true, true, false},
      {"the processes of pods cannot be seen", false, false, false},
  };
  for (const Finished& c : cases) {
    SCOPED_TRACE(c.what);
    RecordLiveness finished = liveness({true, true, true, false});
    finished.finished_at_api_server = [](const PodUid& uid) { return uid == PodUid("uid-x"); };
    finished.has_processes = [c](const PodUid&) { return c.has_processes; };
    finished.sees_processes = [c] { return c.sees_processes; };
    EXPECT_EQ(finished.ended(running()), c.ended);
  }
}

// It was deleted with grace period 0.
TEST(RecordLiveness, APodWithProcessesHasNotEnded) {
  RecordLiveness lingering = liveness({true, true, false, false});
  lingering.has_processes = [](const PodUid& uid) { return uid == PodUid("uid-x"); };
  EXPECT_FALSE(lingering.ended(running()));
}

TEST(RecordLiveness, AnUnstartedAllocationCounts) {
  const Record record = test::allocated(test::device_ids(10), "a");
  const RecordLiveness nobody = liveness({true, true, false, true});
  EXPECT_THAT(nobody.without_ended({record}), testing::ElementsAre(record));
  EXPECT_FALSE(nobody.ended(record));
}

TEST(RecordLiveness, UsesTheUidOfTheRecord) {
  RecordLiveness other = liveness({true, true, false, true});
  other.gone_at_api_server = [](const PodUid& uid) { return uid == PodUid("uid-y"); };
  const Record y = test::started(test::allocated(test::device_ids(10, 10), "b"), "y", 0);
  EXPECT_TRUE(other.ended(y));
  EXPECT_THAT(other.without_ended({running(), y}), testing::ElementsAre(running()));
}

}  // namespace
}  // namespace mgpu::plugin
