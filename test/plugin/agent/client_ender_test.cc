// Which clients of MPS are ended before their containers are killed, and when.
#include "plugin/agent/client_ender.h"

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

const CardUuid kEndersCard("GPU-0");
constexpr int kClient = 11;

class ClientEnderTest : public testing::Test {
 public:
  ClientEnderTest() {
    EXPECT_TRUE(set_log_level("off"));
    bound_ = {record("a", 30)};
    use_ = {CardUse{.uuid = kEndersCard,
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
    ender_ = std::make_unique<ClientEnder>(
        ClientEnder::Facts{.deleted_pods = [this] { return deleted_; },
                           .bound = [this] { return bound_; },
                           .use = [this] { return use_; },
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
  void delete_pod(int grace, const std::string& pod = "a") { deleted_ = {{uid(pod), grace}}; }
  std::set<CardUuid> due_after(Duration time) {
    now_ += time;
    return ender_->due();
  }

  test::ScratchFolder folder_;
  std::vector<DeletedPod> deleted_;
  std::vector<Record> bound_;
  std::vector<CardUse> use_;
  Instant now_{seconds(1'000)};
  std::unique_ptr<ClientEnder> ender_;
};

// --- when ----------------------------------------------------------------------------------------

TEST_F(ClientEnderTest, NothingIsDueWhileNoPodIsDeleted) {
  EXPECT_THAT(due_after(seconds(100)), IsEmpty());
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
}

TEST_F(ClientEnderTest, ClientsAreDueShortlyBeforeTheGracePeriodEnds) {
  delete_pod(30);
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
  EXPECT_THAT(due_after(seconds(27)), IsEmpty());
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
  EXPECT_THAT(due_after(seconds(1)), ElementsAre(kEndersCard));
  EXPECT_TRUE(ender_->take(kEndersCard, kClient));
}

TEST_F(ClientEnderTest, AShortGracePeriodIsDueAtOnce) {
  delete_pod(1);
  EXPECT_THAT(due_after(seconds(0)), ElementsAre(kEndersCard));
}

TEST_F(ClientEnderTest, ASecondDeletionCanShortenTheGracePeriod) {
  delete_pod(3'600);
  EXPECT_THAT(due_after(seconds(10)), IsEmpty());
  delete_pod(5);
  EXPECT_THAT(due_after(seconds(0)), IsEmpty()) << "the new period has begun";
  EXPECT_THAT(due_after(seconds(3)), ElementsAre(kEndersCard));
}

TEST_F(ClientEnderTest, AMarginOfZeroEndsNoClient) {
  make(seconds(0));
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(100)), IsEmpty());
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
}

TEST_F(ClientEnderTest, AfterStopNothingIsDue) {
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(0)), ElementsAre(kEndersCard));
  ender_->stop();
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

// --- whose ---------------------------------------------------------------------------------------

TEST_F(ClientEnderTest, AClientIsEndedOnce) {
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_TRUE(ender_->take(kEndersCard, kClient));
  due_after(seconds(0));
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
}

TEST_F(ClientEnderTest, AWholeCardIsNotUsedByMps) {
  bound_ = {record("a", 100)};
  delete_pod(0);
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

TEST_F(ClientEnderTest, APodWithoutARecordHasNoClients) {
  delete_pod(0, "b");
  EXPECT_THAT(due_after(seconds(0)), IsEmpty());
}

TEST_F(ClientEnderTest, TheClientsOfOtherPodsOfTheCardGoOn) {
  run_process(12, uid("b"));
  use_[0].processes.push_back(ProcessUse{.pid = 12});
  bound_.push_back(record("b", 30));
  delete_pod(0, "a");
  due_after(seconds(0));
  EXPECT_FALSE(ender_->take(kEndersCard, 12));
  EXPECT_TRUE(ender_->take(kEndersCard, kClient));
}

// The daemon is in another process namespace, so that its number is that of another process here.
TEST_F(ClientEnderTest, AProcessThatTheDriverDoesNotListIsNoClient) {
  run_process(12, uid("a"));
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_FALSE(ender_->take(kEndersCard, 12));
  use_.clear();
  EXPECT_FALSE(ender_->take(kEndersCard, kClient)) << "the driver does not respond";
}

TEST_F(ClientEnderTest, AProcessThatIsNotThereIsNoClient) {
  std::filesystem::remove_all(folder_.path("proc/11"));
  delete_pod(0);
  due_after(seconds(0));
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
}

TEST_F(ClientEnderTest, InvalidNumbersAndOtherCardsAreNotTaken) {
  delete_pod(0);
  due_after(seconds(0));
  for (const int pid : {0, -1, 1}) EXPECT_FALSE(ender_->take(kEndersCard, pid)) << pid;
  EXPECT_FALSE(ender_->take(CardUuid("GPU-1"), kClient));
}

// The number of the process belongs to a process of another pod by now.
TEST_F(ClientEnderTest, ANumberThatIsUsedAgainIsNotTaken) {
  delete_pod(0);
  due_after(seconds(0));
  run_process(kClient, uid("b"), 900);
  EXPECT_FALSE(ender_->take(kEndersCard, kClient));
}

}  // namespace
}  // namespace mgpu::plugin
