#include "plugin/containers/pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "common/base/rfc3339.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/plugin/support/scripted_parts.h"

namespace mgpu::plugin {
namespace {

using std::chrono::seconds;
using test::comes_true;
using test::GpuContainer;
using testing::HasSubstr;
using testing::SizeIs;

constexpr Duration kLong{30'000};
const std::vector<GpuContainer> kOne = {{"main", 30, 1'000, "1"}};

class PodsTest : public testing::Test {
 public:
  PodsTest() { EXPECT_TRUE(set_log_level("off")); }

  void start() {
    pods_.start();
    EXPECT_TRUE(comes_true([this] { return pods_.listed(); }));
  }
  kube::Pod create_and_wait(const std::string& name) {
    const kube::Pod pod = api_.create(name, kOne);
    EXPECT_TRUE(comes_true([&] { return pods_.find(pod.uid()).has_value(); }));
    return pod;
  }
  void delete_pod(const std::string& name, const std::string& options = "") {
    api_.call(kube::Method::kDelete, "/api/v1/namespaces/ml/pods/" + name, options);
  }
  Instant now() { return api_.transport().executor().now(); }
  static std::chrono::sys_seconds an_hour_ahead() {
    return std::chrono::floor<seconds>(std::chrono::system_clock::now()) + std::chrono::hours(1);
  }
  void wait_until_gone(const kube::Pod& pod) {
    EXPECT_TRUE(comes_true([&] { return pods_.gone(pod.uid()); }));
  }

  test::PodApi api_;
  Pods pods_{NodeName("n1"), api_.transport()};
};

TEST_F(PodsTest, AreFoundByNameAndByUid) {
  const kube::Pod before = api_.create("a", kOne);
  start();
  const kube::Pod after = create_and_wait("b");
  EXPECT_EQ(pods_.find(PodRef{"ml", "a"})->uid(), before.uid());
  EXPECT_EQ(pods_.find(after.uid())->ref(), (PodRef{"ml", "b"}));
  EXPECT_EQ(pods_.find(PodRef{"other", "a"}), std::nullopt);
  EXPECT_EQ(pods_.find(PodUid("no")), std::nullopt);
  EXPECT_THAT(pods_.all(), SizeIs(2));
}

TEST_F(PodsTest, NoPodIsGoneBeforeTheFirstList) {
  EXPECT_FALSE(pods_.listed());
  EXPECT_FALSE(pods_.gone(PodUid("no")));
  start();
  EXPECT_TRUE(pods_.gone(PodUid("no")));
}

TEST_F(PodsTest, APodIsGoneOnceItIsDeletedOrHasFinished) {
  start();
  const kube::Pod deleted = create_and_wait("deleted");
  EXPECT_FALSE(pods_.gone(deleted.uid()));
  api_.remove("deleted");
  wait_until_gone(deleted);
  EXPECT_EQ(pods_.find(PodRef{"ml", "deleted"}), std::nullopt);
  for (const std::string phase : {"Succeeded", "Failed"}) {
    const kube::Pod finished = create_and_wait(phase == "Failed" ? "f" : "s");
    api_.set_phase(finished.metadata.name, phase);
    wait_until_gone(finished);
  }
}

TEST_F(PodsTest, ATerminatingPodIsNotGone) {
  start();
  const kube::Pod pod = create_and_wait("a");
  api_.call(kube::Method::kDelete, "/api/v1/namespaces/ml/pods/a");
  ASSERT_TRUE(comes_true([&] { return pods_.find(pod.uid())->metadata.being_deleted; }));
  EXPECT_FALSE(pods_.gone(pod.uid()));
}

TEST_F(PodsTest, PodsThatAreDeletedAreKnownWithTheirGracePeriod) {
  start();
  const kube::Pod pod = create_and_wait("a");
  create_and_wait("b");
  EXPECT_THAT(pods_.deleted(), SizeIs(0));
  api_.call(kube::Method::kDelete, "/api/v1/namespaces/ml/pods/a");
  ASSERT_TRUE(comes_true([&] { return pods_.deleted().size() == 1; }));
  EXPECT_EQ(pods_.deleted().front().uid, pod.uid());
  EXPECT_EQ(pods_.deleted().front().grace_seconds, 30);
}

// --- the end of the grace period -----------------------------------------------------------------

// The clock of the node is an hour ahead of the API server's.
TEST_F(PodsTest, AGracePeriodIsCountedFromTheEventOfTheDeletion) {
  Pods pods(NodeName("n1"), api_.transport(), an_hour_ahead);
  pods.start();
  const kube::Pod pod = api_.create("a", kOne);
  ASSERT_TRUE(comes_true([&] { return pods.find(pod.uid()).has_value(); }));
  const Instant before = now();
  delete_pod("a");
  ASSERT_TRUE(comes_true([&] { return pods.deleted().size() == 1; }));
  const Instant ends = pods.deleted().front().ends;
  EXPECT_GE(ends, before + seconds(30));
  EXPECT_LE(ends, now() + seconds(30));
}

TEST_F(PodsTest, AGracePeriodStaysWhenThePodsAreListedAgain) {
  Pods pods(NodeName("n1"), api_.transport(), an_hour_ahead);
  pods.start();
  const kube::Pod pod = api_.create("a", kOne);
  ASSERT_TRUE(comes_true([&] { return pods.find(pod.uid()).has_value(); }));
  delete_pod("a");
  ASSERT_TRUE(comes_true([&] { return pods.deleted().size() == 1; }));
  const Instant ends = pods.deleted().front().ends;
  api_.cut_off(true);
  ASSERT_TRUE(comes_true([&] { return !pods.problem().empty(); }));
  const kube::Pod later = api_.create("b", kOne);
  api_.transport().compact();
  api_.cut_off(false);
  ASSERT_TRUE(comes_true([&] { return pods.find(later.uid()).has_value(); }));
  ASSERT_THAT(pods.deleted(), SizeIs(1));
  EXPECT_EQ(pods.deleted().front().ends, ends);
}

TEST_F(PodsTest, AShorterGracePeriodBeginsAnew) {
  start();
  create_and_wait("a");
  delete_pod("a");
  ASSERT_TRUE(comes_true([&] { return pods_.deleted().size() == 1; }));
  const Instant before = now();
  delete_pod("a", R"({"gracePeriodSeconds": 5})");
  ASSERT_TRUE(comes_true([&] { return pods_.deleted().front().grace_seconds == 5; }));
  EXPECT_GE(pods_.deleted().front().ends, before + seconds(5));
  EXPECT_LE(pods_.deleted().front().ends, now() + seconds(5));
}

// As a plugin does that starts again while the pod is being deleted.
TEST_F(PodsTest, ADeletionThatIsFoundInAListEndsAtItsTimestamp) {
  api_.create("a", kOne);
  delete_pod("a");
  const auto end = read_rfc3339(api_.pod("a")["metadata"]["deletionTimestamp"].get<std::string>());
  ASSERT_TRUE(end.has_value());
  const auto ends_at = [&](seconds left) {
    Pods pods(NodeName("n1"), api_.transport(), [&] { return *end - left; });
    const Instant before = now();
    pods.start();
    EXPECT_TRUE(comes_true([&] { return pods.deleted().size() == 1; }));
    const Duration counted = pods.deleted().front().ends - before;
    // The rest of the grace period began between `before` and now.
    return std::pair(counted - (now() - before), counted);
  };
  for (const auto& [left, wanted] : {std::pair(12, 12), std::pair(-7, 0), std::pair(3'600, 30)}) {
    const auto [at_least, at_most] = ends_at(seconds(left));
    EXPECT_LE(at_least, seconds(wanted)) << left;
    EXPECT_GE(at_most, seconds(wanted)) << left;
  }
}

TEST_F(PodsTest, ANameRefersToTheLatestPod) {
  start();
  const kube::Pod before = create_and_wait("a");
  EXPECT_FALSE(pods_.replaced(before.ref(), before.uid()));
  api_.remove("a");
  wait_until_gone(before);
  EXPECT_FALSE(pods_.replaced(before.ref(), before.uid()));
  const kube::Pod now = create_and_wait("a");
  EXPECT_EQ(pods_.find(PodRef{"ml", "a"})->uid(), now.uid());
  EXPECT_TRUE(pods_.replaced(before.ref(), before.uid()));
  EXPECT_FALSE(pods_.replaced(now.ref(), now.uid()));
  EXPECT_THAT(pods_.all(), SizeIs(1));
}

TEST_F(PodsTest, ARelistAppliesMissedChanges) {
  start();
  const kube::Pod deleted = create_and_wait("deleted");
  const kube::Pod remade = create_and_wait("remade");
  api_.cut_off(true);
  ASSERT_TRUE(comes_true([this] { return !pods_.problem().empty(); }));
  api_.remove("deleted");
  api_.remove("remade");
  const kube::Pod now = api_.create("remade", kOne);
  api_.transport().compact();
  api_.cut_off(false);
  ASSERT_TRUE(comes_true([&] { return pods_.find(now.uid()).has_value(); }));
  wait_until_gone(deleted);
  wait_until_gone(remade);
  EXPECT_TRUE(comes_true([this] { return pods_.problem().empty(); }));
}

// The missing pod may be the one that cannot be read, and its containers may run.
TEST_F(PodsTest, AListWithAnUnreadablePodRemovesNoPods) {
  start();
  const kube::Pod pod = create_and_wait("a");
  api_.cut_off(true);
  ASSERT_TRUE(comes_true([this] { return !pods_.problem().empty(); }));
  api_.remove("a");
  api_.call(kube::Method::kPost, "/api/v1/namespaces/ml/pods",
            R"({"metadata":{"name":"odd"},"spec":{"nodeName":"n1","priority":"high",
                "containers":[{"name":"c","image":"i"}]}})");
  api_.transport().compact();
  api_.cut_off(false);
  ASSERT_TRUE(comes_true([this] { return pods_.problem().empty() && pods_.unreadable() > 0; }));
  EXPECT_TRUE(pods_.find(pod.uid()).has_value());
  EXPECT_FALSE(pods_.gone(pod.uid()));
}

TEST_F(PodsTest, AreKeptWhileTheApiServerIsUnavailable) {
  start();
  const kube::Pod pod = create_and_wait("a");
  api_.cut_off(true);
  ASSERT_TRUE(comes_true([this] { return !pods_.problem().empty(); }));
  EXPECT_TRUE(pods_.find(pod.uid()).has_value());
  EXPECT_FALSE(pods_.gone(pod.uid()));
}

TEST_F(PodsTest, FetchReadsThePodFromTheApiServer) {
  const kube::Pod pod = api_.create("a", kOne);
  const auto fetched = pods_.fetch({"ml", "a"}, kLong);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->uid(), pod.uid());
  EXPECT_EQ(pods_.find(pod.uid()), std::nullopt) << "only the watch changes the known pods";
}

TEST_F(PodsTest, FetchReportsWhyThereIsNoPod) {
  const auto missing = pods_.fetch({"ml", "a"}, kLong);
  EXPECT_EQ(missing.error().kind, kube::ApiError::Kind::kNotFound);
  api_.cut_off(true);
  EXPECT_THAT(pods_.fetch({"ml", "a"}, kLong).error().message, HasSubstr("get pod ml/a"));
}

TEST_F(PodsTest, FetchEndsAtItsTimeout) {
  api_.transport().set_faults([](const kube::Request&) {
    return test::Fault{.kind = test::Fault::Kind::kDelay, .delay = std::chrono::hours(1)};
  });
  EXPECT_THAT(pods_.fetch({"ml", "a"}, Duration(10)).error().message, HasSubstr("get pod ml/a"));
}

}  // namespace
}  // namespace mgpu::plugin
