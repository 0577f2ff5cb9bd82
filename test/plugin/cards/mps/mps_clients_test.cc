// When and how often the daemons get the command to end clients.
#include "plugin/cards/mps/mps_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

const CardUuid kFirstCard("GPU-a");
const CardUuid kSecondCard("GPU-b");
constexpr milliseconds kCardTimeout{1'000};
constexpr milliseconds kLongestWait{300};

// Daemons with one server each, and the clients that are to be ended. Time passes only in commands.
class MpsClientsTest : public testing::Test, public MpsClientTerminator {
 public:
  MpsClientsTest() {
    EXPECT_TRUE(set_log_level("off"));
    due_.cards = {kFirstCard};
  }

  Due due() override { return due_; }
  std::optional<PodUid> pod_of(const CardUuid& card, std::int64_t pid) override {
    const auto pod = pods_.find({card, pid});
    return pod == pods_.end() ? std::nullopt : std::optional(pod->second);
  }

  // A client of the daemon, which is to be ended if it has a pod.
  void add(std::int64_t pid, const std::string& pod = "a", const CardUuid& card = kFirstCard) {
    clients_[card].insert(pid);
    if (!pod.empty()) pods_[{card, pid}] = PodUid(pod);
  }
  milliseconds step() { return steps_.step(kLongestWait); }
  // The clients that the daemons were to end in one step.
  std::vector<std::int64_t> ended() {
    ended_.clear();
    step();
    return ended_;
  }

  Result<std::string> respond(const CardUuid& card, const std::string& command,
                              milliseconds timeout) {
    timeouts_.push_back(timeout);
    std::istringstream words(command);
    std::string word;
    std::int64_t server = 0;
    std::int64_t pid = 0;
    words >> word >> server >> pid;
    if (word == "get_server_list") {
      if (silent_.contains(card)) return no_response(timeout);
      return std::string("4242\n");
    }
    if (word == "get_client_list") {
      std::string list;
      for (const std::int64_t client : clients_[card]) list += std::to_string(client) + "\n";
      return list;
    }
    EXPECT_EQ(word, "terminate_client");
    EXPECT_EQ(server, 4242);
    ended_.push_back(pid);
    if (on_end_) on_end_();
    if (fails_ || cost_ > timeout) return no_response(timeout);
    now_ += cost_;
    if (refuses_) return std::string("it is not permitted\n");
    clients_[card].erase(pid);
    return std::string();
  }

  Result<std::string> no_response(milliseconds timeout) {
    now_ += timeout;
    return error("no response in time");
  }

  Due due_;
  std::map<std::pair<CardUuid, std::int64_t>, PodUid> pods_;
  std::map<CardUuid, std::set<std::int64_t>> clients_;
  std::set<CardUuid> running_ = {kFirstCard, kSecondCard};
  std::set<CardUuid> silent_;  // their daemons do not respond
  bool refuses_ = false;       // terminate_client does nothing, says so, and succeeds
  bool fails_ = false;         // terminate_client has no response
  milliseconds cost_{0};       // of terminate_client
  MpsClients::Time now_{};
  std::vector<std::int64_t> ended_;
  std::function<void()> on_end_;  // while the daemon ends a client
  std::vector<milliseconds> timeouts_;
  MpsClients steps_{
      *this,
      {.running = [this] { return running_; },
       .command = [this](const CardUuid& card, const std::string& command,
                         milliseconds timeout) { return respond(card, command, timeout); },
       .now = [this] { return now_; }},
      kCardTimeout};
};

TEST_F(MpsClientsTest, AClientThatIsToBeEndedIsEndedOnce) {
  add(11);
  add(12, "");
  EXPECT_THAT(ended(), ElementsAre(11));
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(MpsClientsTest, OnlyDaemonsThatRespondAndAreDueAreAsked) {
  add(11);
  add(12, "b", kSecondCard);
  running_ = {kSecondCard};
  step();
  EXPECT_THAT(timeouts_, IsEmpty()) << "of no command";
}

// NVIDIA's program prints the reason, and its exit status is 0.
TEST_F(MpsClientsTest, AClientWhoseEndWasRefusedIsTriedAgain) {
  add(11);
  refuses_ = true;
  EXPECT_THAT(ended(), ElementsAre(11));
  refuses_ = false;
  EXPECT_THAT(ended(), ElementsAre(11));
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(MpsClientsTest, AClientWhoseCommandFailedIsTriedAgain) {
  add(11);
  fails_ = true;
  EXPECT_THAT(ended(), ElementsAre(11));
  fails_ = false;
  EXPECT_THAT(ended(), ElementsAre(11));
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(MpsClientsTest, AClientIsTriedALimitedNumberOfTimes) {
  add(11);
  refuses_ = true;
  for (int i = 0; i < 3 * kMpsEndTries; ++i) step();
  EXPECT_THAT(ended_, SizeIs(kMpsEndTries));
}

TEST_F(MpsClientsTest, TheClientsOfACardTakeOneTimeoutOfAStep) {
  for (int pid = 11; pid <= 20; ++pid) add(pid);
  add(31, "b", kSecondCard);
  due_.cards = {kFirstCard, kSecondCard};
  cost_ = kCardTimeout * 2 / 5;
  const auto before = now_;
  // The third one is cut off.
  EXPECT_THAT(ended(), ElementsAre(11, 12, 13, 31));
  EXPECT_EQ(now_ - before, kCardTimeout + cost_);
  EXPECT_THAT(timeouts_, Each(Le(kCardTimeout)));
}

TEST_F(MpsClientsTest, TheNextStepGoesOnWithTheOtherClients) {
  for (int pid = 11; pid <= 13; ++pid) add(pid);
  fails_ = true;
  EXPECT_THAT(ended(), ElementsAre(11));
  EXPECT_THAT(ended(), ElementsAre(12));
  EXPECT_THAT(ended(), ElementsAre(13));
}

TEST_F(MpsClientsTest, APodWithManySlowClientsDelaysNoOtherPod) {
  for (int pid = 11; pid <= 20; ++pid) add(pid, "a");
  add(31, "b");
  fails_ = true;
  EXPECT_THAT(ended(), ElementsAre(11));
  EXPECT_THAT(ended(), ElementsAre(31));
}

TEST_F(MpsClientsTest, ADaemonThatDoesNotRespondTakesOneTimeout) {
  add(11);
  add(31, "b", kSecondCard);
  due_.cards = {kFirstCard, kSecondCard};
  silent_ = {kFirstCard};
  const auto before = now_;
  EXPECT_THAT(ended(), ElementsAre(31));
  EXPECT_EQ(now_ - before, kCardTimeout);
}

TEST_F(MpsClientsTest, AProcessThatBelongsToAnotherPodByNowIsNotEnded) {
  add(11, "a");
  add(12, "a");
  on_end_ = [this] { pods_[{kFirstCard, 12}] = PodUid("b"); };
  EXPECT_THAT(ended(), ElementsAre(11));
}

TEST_F(MpsClientsTest, TheNextStepIsNoLaterThanTheNextDueMoment) {
  EXPECT_EQ(step(), kLongestWait);
  due_.next = kLongestWait * 2;
  EXPECT_EQ(step(), kLongestWait);
  due_.next = milliseconds(7);
  EXPECT_EQ(step(), milliseconds(7));
}

}  // namespace
}  // namespace mgpu::plugin
