// Which clients of MPS are ended before their containers are killed, and when.
#include "plugin/agent/client_terminator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/log.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using std::chrono::seconds;
using test::device_ids;
using testing::ElementsAre;
using testing::IsEmpty;

const CardUuid kTerminatorsCard("GPU-0");
constexpr int kClient = 11;

class ClientTerminatorTest : public testing::Test {
 public:
  ClientTerminatorTest() {
    EXPECT_TRUE(set_log_level("off"));
    bound_ = {record("a", 30)};
    use_ = {CardUse{.uuid = kTerminatorsCard,
                    .memory_used = {},
                    .sm_percent = {},
                    .processes = {ProcessUse{.pid = kClient}}}};
    run_process(kClient, uid("a"));
    make(seconds(2));
  }

  // Pod uids as Kubernetes has them, which cgroups are named after.
  static PodUid uid(const std::string& pod) {
    return PodUid("00000000-0000-0000-0000-00000000000" + pod);
  }
  static Record record(const std::string& pod, int core) {
    Record record = test::started(test::allocated(device_ids(core), pod), pod, 0);
    record.owner->uid = uid(pod);
    record.cards.front().share.core = Percent(core);
    return record;
  }
  void make(Duration margin) {
    terminator_ = std::make_unique<ClientTerminator>(
        ClientTerminator::Dependencies{.deleted_pods = [this] { return deleted_; },
                                       .bound = [this] { return bound_; },
                                       .use = [this] { return use_; },
                                       .read_soon = [this] { ++reads_; },
                                       .now = [this] { return now_; }},
        folder_.path("proc"), margin);
  }
  void run_process(int pid, const PodUid& pod, int start_time = 500) {
    const std::string process = folder_.path("proc/" + std::to_string(pid));
    std::filesystem::create_directories(process);
    std::ofstream(process + "/cgroup")
        << "0::/kubepods/pod" << pod.str() << "/" << std::string(64, 'a') << "\n";
    std::ofstream(process + "/stat") << pid << " (python3) S 1 10 10 0 -1 4194560 100 0 0 0 5 6 0 0"
                                     << " 20 0 1 0 " << start_time << " 10000 200 0\n";
  }
  void delete_pod(int grace, const std::string& pod = "a") {
    deleted_ = {{uid(pod), grace, now_ + seconds(grace)}};
  }
  std::set<CardUuid> due_after(Duration time) {
    now_ += time;
    return terminator_->due().cards;
  }
  // Whether the client is to be ended.
  bool ends(const CardUuid& card = kTerminatorsCard, int pid = kClient) {
    return terminator_->pod_of(card, pid).has_value();
  }

  test::ScratchFolder folder_;
  std::vector<DeletedPod> deleted_;
  std::vector<Record> bound_;
  std::vector<CardUse> use_;
  Instant now_{seconds(1'000)};
  int reads_ = 0;
  std::unique_ptr<ClientTerminator> terminator_;
};

// --- when ----------------------------------------------------------------------------------------

TEST_F(ClientTerminatorTest, NothingIsDueWhileNoPodIsDeleted) {
  EXPECT_THAT(due_after(seconds(100)), IsEmpty());
  EXPECT_FALSE(ends());
}

TEST_F(ClientTerminatorTest, ClientsAreDueShortlyBeforeTheGracePeriodEnds) {
  delete_pod(30);
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
  EXPECT_THAT(due_after(seconds(27)), IsEmpty());
  EXPECT_FALSE(ends());
  EXPECT_THAT(due_after(seconds(1)), ElementsAre(kTerminatorsCard));
  EXPECT_EQ(terminator_->pod_of(kTerminatorsCard, kClient), uid("a"));
}

// The plugin may have seen the deletion late, or may have started since.
TEST_F(ClientTerminatorTest, TheEndOfTheGracePeriodCountsAndNotWhenItIsFirstSeen) {
  deleted_ = {{uid("a"), 30, now_ + seconds(1)}};
  EXPECT_THAT(due_after(seconds(0)), ElementsAre(kTerminatorsCard));
}

TEST_F(ClientTerminatorTest, TheTimeToTheNextDueMomentIsExact) {
  EXPECT_EQ(terminator_->due().next, std::nullopt);
  delete_pod(30);
  bound_.push_back(record("b", 30));
  deleted_.push_back({uid("b"), 60, now_ + seconds(60)});
  EXPECT_EQ(terminator_->due().next, seconds(28));
  now_ += seconds(28) - Duration(1);
  EXPECT_EQ(terminator_->due().next, Duration(1));
  now_ += Duration(1);
  const auto due = terminator_->due();
  EXPECT_THAT(due.cards, ElementsAre(kTerminatorsCard));
  EXPECT_EQ(due.next, seconds(30));
}

TEST_F(ClientTerminatorTest, AProgramHasHalfOfAShortGracePeriod) {
  make(seconds(10));
  delete_pod(6);
  EXPECT_THAT(due_after(seconds(2)), IsEmpty());
  EXPECT_THAT(due_after(seconds(1)), ElementsAre(kTerminatorsCard));
}

TEST_F(ClientTerminatorTest, NoGracePeriodIsDueAtOnce) {
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(0)), ElementsAre(kTerminatorsCard));
}

TEST_F(ClientTerminatorTest, AMarginOfZeroEndsNoClient) {
  make(seconds(0));
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(100)), IsEmpty());
  EXPECT_FALSE(ends());
}

TEST_F(ClientTerminatorTest, AfterStopNothingIsDue) {
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(0)), ElementsAre(kTerminatorsCard));
  terminator_->stop();
  EXPECT_FALSE(ends());
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

// --- whose ---------------------------------------------------------------------------------------

// A process that has started since the last read is not in the list of the driver.
TEST_F(ClientTerminatorTest, TheListOfTheDriverIsReadAgainWhenAPodBecomesDue) {
  bound_.push_back(record("b", 30));
  delete_pod(30);
  deleted_.push_back({uid("b"), 60, now_ + seconds(60)});
  due_after(seconds(27));
  EXPECT_EQ(reads_, 0);
  due_after(seconds(1));
  EXPECT_EQ(reads_, 1);
  due_after(seconds(1));
  EXPECT_EQ(reads_, 1) << "it is read again by itself";
  due_after(seconds(30));
  EXPECT_EQ(reads_, 2) << "for pod b";
}

TEST_F(ClientTerminatorTest, AProcessIsFoundOnceTheDriverListsIt) {
  run_process(12, uid("a"));
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_FALSE(ends(kTerminatorsCard, 12));
  use_[0].processes.push_back(ProcessUse{.pid = 12});
  EXPECT_TRUE(ends(kTerminatorsCard, 12));
}

TEST_F(ClientTerminatorTest, AWholeCardIsNotUsedByMps) {
  bound_ = {record("a", 100)};
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

TEST_F(ClientTerminatorTest, APodWithoutARecordHasNoClients) {
  delete_pod(0, "b");
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

TEST_F(ClientTerminatorTest, TheClientsOfOtherPodsOfTheCardGoOn) {
  run_process(12, uid("b"));
  use_[0].processes.push_back(ProcessUse{.pid = 12});
  bound_.push_back(record("b", 30));
  delete_pod(0, "a");
  due_after(seconds(0));
  EXPECT_FALSE(ends(kTerminatorsCard, 12));
  EXPECT_TRUE(ends());
}

// The daemon is in another process namespace, so that its number is that of another process here.
TEST_F(ClientTerminatorTest, AProcessThatTheDriverDoesNotListIsNoClient) {
  run_process(12, uid("a"));
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_FALSE(ends(kTerminatorsCard, 12));
  use_.clear();
  EXPECT_FALSE(ends()) << "the driver does not respond";
}

TEST_F(ClientTerminatorTest, AProcessThatIsNotThereIsNoClient) {
  std::filesystem::remove_all(folder_.path("proc/11"));
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_FALSE(ends());
}

TEST_F(ClientTerminatorTest, InvalidNumbersAndOtherCardsAreNotTaken) {
  delete_pod(0);
  due_after(seconds(0));
  for (const int pid : {0, -1, 1}) EXPECT_FALSE(ends(kTerminatorsCard, pid)) << pid;
  EXPECT_FALSE(ends(CardUuid("GPU-1")));
}

// The number of the process belongs to a process of another pod by now.
TEST_F(ClientTerminatorTest, ANumberThatIsUsedAgainIsNotTaken) {
  delete_pod(0);
  due_after(seconds(0));
  run_process(kClient, uid("b"), 900);
  EXPECT_FALSE(ends());
}

}  // namespace
}  // namespace mgpu::plugin
