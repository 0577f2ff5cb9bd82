#include "plugin/allocation/identify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kIds = {"c0", "c1"};

Record record(const char* nonce) {
  Record record;
  record.devices = DeviceSet::of(kIds).value();
  record.id = allocation_id(record.devices, nonce);
  return record;
}

Record bound(const char* nonce, const char* pod, const char* container) {
  Record one = record(nonce);
  one.owner = Owner{{"a", pod}, PodUid("uid-of-" + std::string(pod)), container};
  return one;
}

CheckpointedContainer entry(const Record& record, const char* uid, const char* container) {
  return {PodUid(uid), container, record.id};
}

std::string error_of(const Evidence& evidence) {
  const auto identities = identify(evidence);
  return identities ? "none" : identities.error().message;
}

TEST(Identify, OneRecordAndOneListedContainerMatch) {
  const Evidence evidence{{record("aa")}, {{{{"a", "x"}, "app"}}}, {}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("aa").id, PodRef{"a", "x"}, PodUid(), "app"}));
}

TEST(Identify, UsesTheCheckpointWhereTheListIsNotEnough) {
  const Evidence evidence{{record("aa"), record("bb")}, {}, {{entry(record("bb"), "u1", "app")}}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("bb").id, {}, PodUid("u1"), "app"}));
}

TEST(Identify, TheCheckpointHasTheUidOfAListedContainer) {
  const Evidence evidence{
      {record("aa")}, {{{{"a", "x"}, "app"}}}, {{entry(record("aa"), "u1", "app")}}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("aa").id, PodRef{"a", "x"}, PodUid("u1"), "app"}));
}

TEST(Identify, FindsAnAllocationWithoutARecordInTheCheckpoint) {
  const Evidence evidence{{}, {{}}, {{entry(record("cc"), "u1", "app")}}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("cc").id, {}, PodUid("u1"), "app"}));
}

// kubelet reuses an init container's devices for an app container of the same pod.
TEST(Identify, AnInitContainerAndAnAppContainerMayBothMatch) {
  const Evidence evidence{{record("aa"), record("bb")},
                          {{{{"a", "x"}, "app"}}},
                          {{entry(record("aa"), "u1", "init"), entry(record("bb"), "u1", "app")}}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("aa").id, PodRef{"a", "x"}, PodUid("u1"), "init"},
                          Identity{record("bb").id, PodRef{"a", "x"}, PodUid("u1"), "app"}));
}

TEST(Identify, FindsAStartedContainerWhileKubeletIsUnavailable) {
  const Evidence evidence{{bound("aa", "x", "app")}, {}, {}};
  EXPECT_THAT(identify(evidence).value(),
              ElementsAre(Identity{record("aa").id, PodRef{"a", "x"}, PodUid("uid-of-x"), "app"}));
}

TEST(Identify, UncertaintyIsAnError) {
  const struct {
    const char* what;
    Evidence evidence;
    const char* sentence;
  } cases[] = {
      {"nothing is known", {{}, {}, {}}, "0 allocations are known"},
      {"two containers are listed",
       {{record("aa")}, {{{{"a", "x"}, "app"}, {{"a", "y"}, "app"}}}, {}},
       "list has 2 containers"},
      {"two allocations, no checkpoint",
       {{record("aa"), record("bb")}, {{{{"a", "x"}, "app"}}}, {}},
       "checkpoint cannot be read, and 2 allocations are known"},
      {"not started before, and kubelet is unavailable",
       {{record("aa")}, {}, {}},
       "list is unavailable"},
      {"the checkpoint has no entry",
       {{record("aa")}, {{}}, {std::vector<CheckpointedContainer>{}}},
       "checkpoint has none"},
      {"two pods have the devices",
       {{record("aa"), record("bb")},
        {},
        {{entry(record("aa"), "u1", "app"), entry(record("bb"), "u2", "app")}}},
       "to two pods, uid u1 and uid u2"},
      {"the response was another plugin's",
       {{record("aa")}, {}, {{CheckpointedContainer{PodUid("u1"), "app", AllocationId("old")}}}},
       "is not ours; delete the pod"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(error_of(c.evidence), HasSubstr(c.sentence)) << c.what;
  }
}

TEST(AllocationIds, MustHaveTheirForm) {
  EXPECT_TRUE(valid(record("a1b2").id));
  for (const char* text : {"", "-", "0123456789abcdef", "0123456789abcdef-", "0123456789abcde-aa",
                           "0123456789abcdef-a/b", "../../../../etc-aa",
                           "0123456789abcdef-aaaaaaaaaaaaaaaaa", "0123456789ABCDEF-aa"}) {
    EXPECT_FALSE(valid(AllocationId(text))) << text;
  }
}

}  // namespace
}  // namespace mgpu::plugin
