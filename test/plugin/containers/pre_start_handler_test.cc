// Identification of the container and its pod, retries, and the state after a refusal. For cards
// see pre_start_handler_cards_test.cc.
#include "plugin/containers/pre_start_handler.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "test/plugin/containers/pre_start_handler_world.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;
using test::device_ids;
using test::PreStartHandlerTest;
using test::sentence;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// --- opening and closing -------------------------------------------------------------------------

TEST_F(PreStartHandlerTest, InjectsTheCardsOfTheAnnotation) {
  const auto record = place("a", 30, 1);
  const auto started = start(device_ids(30));
  ASSERT_TRUE(started) << sentence(started);
  const auto edits = injector_.injected().at(record.id);
  EXPECT_EQ(edits.environment.at("MGPU_CARDS"), "1");
  EXPECT_EQ(edits.environment.at("MGPU_CARD_UUIDS"), "GPU-1");
  EXPECT_EQ(edits.environment.at("MGPU_MEMORY_MIB"), "1000");
  EXPECT_THAT(edits.devices, ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"}));
  EXPECT_THAT(refusals(), IsEmpty());
}

TEST_F(PreStartHandlerTest, SavesTheRecordBeforeTheContainerStarts) {
  const auto record = place("a", 30, 1);
  ASSERT_TRUE(start(device_ids(30)));
  const auto kept = on_disk(record.id);
  ASSERT_TRUE(kept && kept->bound());
  EXPECT_EQ(kept, records_->find(record.id));
  EXPECT_EQ(kept->owner->pod, (PodRef{"ml", "a"}));
}

TEST_F(PreStartHandlerTest, AcceptsTheDevicesInAnyOrder) {
  place("a", 30, 1);
  auto ids = device_ids(30);
  std::ranges::reverse(ids);
  EXPECT_EQ(sentence(start(ids)), "started");
}

TEST_F(PreStartHandlerTest, RefusesTemporarilyBeforeItIsOpened) {
  const auto record = place("a", 30, 1);
  start_plugin();
  const auto refused = start_once(device_ids(30));
  EXPECT_THAT(sentence(refused), HasSubstr("its allocations are not loaded"));
  EXPECT_EQ(refused.error().reason, RefusalReason::kNotReady);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_EQ(cards_of(record.id), "none");
}

TEST_F(PreStartHandlerTest, RetriesUntilItIsOpened) {
  place("a", 30, 1);
  start_plugin();
  std::atomic<int> attempts = 0;
  auto started = std::async(std::launch::async, [&] {
    return handler_->start(device_ids(30), [&] { return ++attempts < 0; });
  });
  ASSERT_TRUE(test::comes_true([&] { return attempts >= 1; }));
  handler_->open();
  EXPECT_EQ(sentence(started.get()), "started");
}

TEST_F(PreStartHandlerTest, CloseEndsTheSettleDelay) {
  const auto record = place("a", 30, 1);
  start_plugin(std::chrono::hours(1));
  handler_->open();
  auto started = start_async(device_ids(30));
  ASSERT_TRUE(test::comes_true([&] {
    const auto kept = records_->find(record.id);
    return kept && kept->bound();
  }));
  handler_->close();
  EXPECT_EQ(sentence(started.get()), "started");
}

TEST_F(PreStartHandlerTest, MakesOneAttemptWhenItIsClosed) {
  handler_->close();
  EXPECT_FALSE(start(device_ids(30)));
  EXPECT_EQ(kubelet_.calls(), 1);
}

TEST_F(PreStartHandlerTest, SettlesOnlyAfterAChange) {
  const auto record = place("a", 30, 1);
  ASSERT_TRUE(start(device_ids(30)));
  start_plugin(std::chrono::hours(1));
  handler_->open();
  EXPECT_EQ(sentence(start(device_ids(30))), "started") << "a restart changes no file";
}

// --- which container -----------------------------------------------------------------------------

TEST_F(PreStartHandlerTest, RefusesInvalidIds) {
  for (const auto& ids : {Ids{}, Ids{""}, Ids{std::string(64, 'x')}}) {
    const auto refused = start(ids);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, RefusalReason::kUnknownContainer);
    EXPECT_FALSE(refused.error().transient);
  }
  EXPECT_EQ(kubelet_.calls(), 0);
}

TEST_F(PreStartHandlerTest, RefusesUnknownDevicesTemporarily) {
  const auto refused = start_once(device_ids(30));
  EXPECT_THAT(sentence(refused), HasSubstr("cannot identify the container that kubelet starts"));
  EXPECT_EQ(refused.error().reason, RefusalReason::kUnknownContainer);
  EXPECT_TRUE(refused.error().transient);
}

TEST_F(PreStartHandlerTest, RefusesDevicesOfTwoContainers) {
  place("a", 30, 1);
  create("b", {{"main", 30, 1'000, "2"}});
  kubelet_.list("b", "main", device_ids(30));
  EXPECT_THAT(sentence(start_once(device_ids(30))), HasSubstr("2 containers with these devices"));
}

TEST_F(PreStartHandlerTest, ReadsTheCheckpointIfPodResourcesFails) {
  const auto pod = create("a", {{"main", 30, 1'000, "1"}});
  const auto record = allocate(device_ids(30));
  kubelet_.fail("PodResources does not answer");
  EXPECT_THAT(sentence(start_once(device_ids(30))), HasSubstr("list is unavailable"));
  test::write_checkpoint(folder_.path(),
                         {{pod.metadata.uid, "main", device_ids(30), record.id.str()}});
  EXPECT_EQ(sentence(start(device_ids(30))), "started");
  EXPECT_EQ(cards_of(record.id), "1");
}

TEST_F(PreStartHandlerTest, FindsALostAllocationInTheCheckpoint) {
  const auto pod = create("a", {{"main", 30, 1'000, "1"}});
  kubelet_.list("a", "main", device_ids(30));
  const auto id = test::allocated(device_ids(30), "lost").id;
  test::write_checkpoint(folder_.path(), {{pod.metadata.uid, "main", device_ids(30), id.str()}});
  EXPECT_EQ(sentence(start(device_ids(30))), "started");
  EXPECT_EQ(cards_of(id), "1");
}

TEST_F(PreStartHandlerTest, ARestartNeedsNeitherPodResourcesNorCheckpoint) {
  const auto record = place("a", 30, 1);
  ASSERT_TRUE(start(device_ids(30)));
  kubelet_.fail("PodResources does not answer");
  EXPECT_EQ(sentence(start(device_ids(30))), "started");
  EXPECT_EQ(cards_of(record.id), "1");
}

TEST_F(PreStartHandlerTest, RefusesANewContainerIfPodResourcesFails) {
  place("a", 30, 1);
  kubelet_.fail("PodResources does not answer");
  const auto refused = start_once(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kUnknownContainer);
  EXPECT_THAT(injector_.injected(), IsEmpty());
}

TEST_F(PreStartHandlerTest, IgnoresTheResponseOfAnotherPlugin) {
  const auto pod = create("a", {{"main", 30, 1'000, "1"}});
  test::write_checkpoint(folder_.path(), {{pod.metadata.uid, "main", device_ids(30), ""}});
  EXPECT_THAT(sentence(start_once(device_ids(30))), HasSubstr("is not ours; delete the pod"));
}

// kubelet reuses the devices of an init container for the next container, and lists only that one.
class InitContainerTest : public PreStartHandlerTest {
 public:
  InitContainerTest() {
    pod_ = create("a", {{"prepare", 30, 1'000, "1", true}, {"main", 30, 1'000, "1"}});
    init_ = allocate(device_ids(30), "init");
    kubelet_.list("a", "main", device_ids(30));
  }
  void write_checkpoint() {
    test::write_checkpoint(folder_.path(),
                           {{pod_.metadata.uid, "prepare", device_ids(30), init_.id.str()},
                            {pod_.metadata.uid, "main", device_ids(30), main_.id.str()}});
  }

  kube::Pod pod_;
  Record init_;
  Record main_ = test::allocated(device_ids(30), "main");
};

TEST_F(InitContainerTest, InjectsTheCardsOfBothContainers) {
  allocate(device_ids(30), "main");
  write_checkpoint();
  EXPECT_EQ(sentence(start(device_ids(30))), "started");
  EXPECT_EQ(cards_of(init_.id), "1");
  EXPECT_EQ(cards_of(main_.id), "1");
  EXPECT_EQ(on_disk(init_.id)->owner->container, "prepare");
  EXPECT_EQ(on_disk(init_.id)->owner->kind, ContainerKind::kInit);
  EXPECT_EQ(on_disk(main_.id)->owner->container, "main");
}

TEST_F(InitContainerTest, RefusesWithoutTheCheckpoint) {
  allocate(device_ids(30), "main");
  const auto refused = start_once(device_ids(30));
  EXPECT_THAT(sentence(refused), HasSubstr("checkpoint cannot be read, and 2 allocations"));
  EXPECT_TRUE(refused.error().transient);
  std::ofstream(folder_.path("kubelet_internal_checkpoint")) << "{";
  EXPECT_THAT(sentence(start_once(device_ids(30))), HasSubstr("checkpoint cannot be read"));
  EXPECT_THAT(injector_.injected(), IsEmpty());
}

TEST_F(InitContainerTest, IdentifiesTheContainerByTheCheckpoint) {
  test::write_checkpoint(folder_.path(),
                         {{pod_.metadata.uid, "prepare", device_ids(30), init_.id.str()}});
  EXPECT_EQ(sentence(start(device_ids(30))), "started");
  EXPECT_EQ(on_disk(init_.id)->owner->container, "prepare");
}

// --- which pod -----------------------------------------------------------------------------------

TEST_F(PreStartHandlerTest, WaitsForThePodToAppear) {
  allocate(device_ids(30));
  kubelet_.list("a", "main", device_ids(30));
  auto started = start_async(device_ids(30));
  wait_for_attempts(2);
  api_.create("a", {{"main", 30, 1'000, "1"}});
  EXPECT_EQ(sentence(started.get()), "started");
  EXPECT_THAT(refusals(), IsEmpty()) << "a retried refusal is not reported";
}

TEST_F(PreStartHandlerTest, WaitsForTheAnnotationToAppear) {
  create("a", {{"main", 30, 1'000, ""}});
  allocate(device_ids(30));
  kubelet_.list("a", "main", device_ids(30));
  auto started = start_async(device_ids(30));
  wait_for_attempts(2);
  api_.annotate("a", test::contract().index_key("main"), "1");
  EXPECT_EQ(sentence(started.get()), "started");
}

TEST_F(PreStartHandlerTest, ReadsThePodFromTheApiServerIfTheWatchLags) {
  const auto record = place("a", 30, 1);
  pods_ = std::make_unique<Pods>(NodeName("n1"), api_.transport());  // not started
  PreStartHandler handler(
      {test::contract(), NodeName("n1"), folder_.path()},
      {*records_, injector_, inventory_, nullptr, *pods_, kubelet_.client(), processes_},
      [](const Refusal&) {});
  handler_.reset();
  handler.open();
  EXPECT_EQ(sentence(handler.start(device_ids(30), [] { return true; })), "started");
}

TEST_F(PreStartHandlerTest, RefusesAPodThatDoesNotExistTemporarily) {
  allocate(device_ids(30));
  kubelet_.list("a", "main", device_ids(30));
  const auto refused = start_once(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kUnknownPod);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_EQ(refused.error().pod, (PodRef{"ml", "a"}));
  EXPECT_THAT(sentence(refused), HasSubstr("ml/a"));
}

TEST_F(PreStartHandlerTest, RefusesAnUnknownUidTemporarily) {
  const auto record = allocate(device_ids(30));
  test::write_checkpoint(folder_.path(), {{"uid-a", "main", device_ids(30), record.id.str()}});
  const auto refused = start_once(device_ids(30));
  EXPECT_EQ(sentence(refused), "pod uid uid-a is not known at the API server");
  EXPECT_EQ(refused.error().uid, PodUid("uid-a"));
  EXPECT_TRUE(refused.error().transient);
}

TEST_F(PreStartHandlerTest, RefusesAnUnknownPodWithoutTheApiServer) {
  allocate(device_ids(30));
  kubelet_.list("a", "main", device_ids(30));
  api_.cut_off(true);
  EXPECT_EQ(start_once(device_ids(30)).error().reason, RefusalReason::kUnknownPod);
}

TEST_F(PreStartHandlerTest, DoesNotReuseTheAllocationForANewPodOfTheSameName) {
  const auto record = place("a", 30, 1);
  ASSERT_TRUE(start(device_ids(30)));
  api_.remove("a");
  create("a", {{"main", 30, 1'000, "2"}});
  const auto refused = start_once(device_ids(30));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_EQ(cards_of(record.id), "1");
}

// --- waiting -------------------------------------------------------------------------------------

// The watch still shows the deleted pod, and PodResources has no uid.
TEST_F(PreStartHandlerTest, ANewPodOfTheSameNameGetsItsOwnCardsWhileTheWatchLags) {
  for (const bool has_checkpoint : {false, true}) {
    const std::string pod = has_checkpoint ? "with" : "without";
    const int first_device = has_checkpoint ? 100 : 0;
    place(pod, 50, 0, first_device);
    ASSERT_TRUE(start_once(device_ids(50, first_device)));
    api_.cut_off_watches();
    api_.remove(pod);
    kubelet_.forget(pod);
    const kube::Pod again = api_.create(pod, {{"main", 50, 1'000, "1"}});
    const Ids ids = device_ids(50, first_device + 50);
    kubelet_.list(pod, "main", ids);
    const Record record = allocate(ids, pod + "2");
    if (has_checkpoint) {
      test::write_checkpoint(folder_.path(), {{again.metadata.uid, "main", ids, record.id.str()}});
    }
    const Started started = start_once(ids);
    ASSERT_TRUE(started) << started.error().message;
    EXPECT_EQ(cards_of(record.id), "1") << pod;
    EXPECT_EQ(on_disk(record.id)->owner->uid, again.uid());
    api_.cut_off(false);
  }
}

TEST_F(PreStartHandlerTest, DoesNotRetryAPermanentRefusal) {
  cards_->say(FoundCards{{test::found_card(0, "XID 79")}, {}});
  ASSERT_TRUE(test::comes_true([&] { return inventory_.state().cards[0].health == "XID 79"; }));
  place("a", 30, 0);
  const auto refused = start(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kUnhealthyCard);
  EXPECT_EQ(kubelet_.calls(), 1);
}

TEST_F(PreStartHandlerTest, StopsRetryingAtItsTimeout) {
  const auto refused = start(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kUnknownContainer);
  EXPECT_GT(kubelet_.calls(), 1);
}

TEST_F(PreStartHandlerTest, StopsRetryingWhenKubeletCancels) {
  const auto cancelled = [this] { return kubelet_.calls() >= 2; };
  EXPECT_FALSE(handler_->start(device_ids(30), cancelled));
  EXPECT_EQ(kubelet_.calls(), 2);
}

TEST_F(PreStartHandlerTest, ReportsEachRefusalOnceWithItsPod) {
  const auto pod = create("a", {{"main", 30, 1'000, "7"}});
  allocate(device_ids(30));
  kubelet_.list("a", "main", device_ids(30));
  EXPECT_FALSE(start(device_ids(30)));
  ASSERT_THAT(refusals(), SizeIs(1));
  EXPECT_EQ(refusals()[0].reason, RefusalReason::kNoSuchCard);
  EXPECT_EQ(refusals()[0].pod, (PodRef{"ml", "a"}));
  EXPECT_EQ(refusals()[0].uid, pod.uid());
}

// --- after a failure -----------------------------------------------------------------------------

TEST_F(PreStartHandlerTest, DoesNotSaveTheRecordIfInjectionFails) {
  const auto record = place("a", 30, 1);
  injector_.fail("cannot create /var/run/cdi: Read-only file system");
  const auto refused = start_once(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kNotReady);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_EQ(sentence(refused), "cannot create /var/run/cdi: Read-only file system");
  EXPECT_EQ(refused.error().pod, (PodRef{"ml", "a"}));
  ASSERT_TRUE(on_disk(record.id));
  EXPECT_FALSE(on_disk(record.id)->bound());
}

TEST_F(PreStartHandlerTest, RetriesInjection) {
  const auto record = place("a", 30, 1);
  injector_.fail("cannot write");
  auto started = start_async(device_ids(30));
  wait_for_attempts(2);
  injector_.fail("");
  EXPECT_EQ(sentence(started.get()), "started");
  EXPECT_EQ(cards_of(record.id), "1");
}

TEST_F(PreStartHandlerTest, RefusesIfTheRecordCannotBeSaved) {
  const auto record = place("a", 30, 1);
  fs::remove_all(records_folder());
  std::ofstream(records_folder()) << "in the way";
  const auto refused = start_once(device_ids(30));
  EXPECT_EQ(refused.error().reason, RefusalReason::kNotReady);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_THAT(sentence(refused), HasSubstr(records_folder()));
  fs::remove(records_folder());
  EXPECT_EQ(sentence(start_once(device_ids(30))), "started");
  EXPECT_TRUE(on_disk(record.id)->bound());
}

TEST_F(PreStartHandlerTest, AReservationCountsAfterAFailedInjection) {
  place("a", 60, 1);
  injector_.fail("cannot write");
  ASSERT_FALSE(start_once(device_ids(60)));
  injector_.fail("");
  place("b", 60, 1, 60);
  EXPECT_EQ(start_once(device_ids(60, 60)).error().reason, RefusalReason::kFullCard);
}

// --- processes of pods ---------------------------------------------------------------------------

class PodProcessesWarningTest : public PreStartHandlerTest {
 protected:
  ~PodProcessesWarningTest() override { EXPECT_TRUE(set_log_level("off")); }

  // Starts a container of pod `pod`, and returns the warnings of that.
  std::string warnings(const std::string& pod, int first_device) {
    EXPECT_TRUE(set_log_level("warn"));
    place(pod, 30, 1, first_device);
    testing::internal::CaptureStderr();
    EXPECT_EQ(sentence(start(device_ids(30, first_device))), "started");
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(PodProcessesWarningTest, IsLoggedOnceWhereTheProcessesAreNotVisible) {
  EXPECT_THAT(warnings("a", 0), HasSubstr("the processes of pods are not visible"));
  EXPECT_THAT(warnings("b", 30), IsEmpty());
}

TEST_F(PodProcessesWarningTest, IsNotLoggedWhereTheSandboxHasAProcess) {
  const auto pod = create("a", {{"main", 30, 1'000, "1"}});
  test::add_process(folder_.path("proc"), 7, pod.uid());
  const auto ids = device_ids(30);
  kubelet_.list("a", "main", ids);
  allocate(ids, "a");
  EXPECT_TRUE(set_log_level("warn"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(sentence(start(ids)), "started");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::Not(HasSubstr("the processes of pods are not visible")));
}

}  // namespace
}  // namespace mgpu::plugin
