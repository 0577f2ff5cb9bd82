// The socket of mgpu-set-limits, also with clients that are not that program.
#include "plugin/containers/limit_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mutex>

#include "common/base/log.h"
#include "plugin/hook/limit_protocol.h"
#include "test/plugin/containers/limit_client.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using test::LimitClient;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kNoRequest[] = "this is not a request of mgpu-set-limits\n";

class LimitServerTest : public testing::Test {
 public:
  LimitServerTest() { EXPECT_TRUE(set_log_level("off")); }

  void start(std::chrono::milliseconds request_timeout = kLimitRequestTimeout) {
    auto server = LimitServer::start(
        path_,
        [this](const AllocationId& id, std::int64_t pid) {
          const std::lock_guard lock(mutex_);
          handled_.push_back(id.str() + " " + std::to_string(pid));
          return outcome_;
        },
        request_timeout);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  std::string ask(const std::string& text) const {
    const LimitClient client(path_);
    client.send(text);
    return client.reply();
  }
  std::vector<std::string> handled() const {
    const std::lock_guard lock(mutex_);
    return handled_;
  }

  test::ScratchFolder folder_;
  const std::string path_ = folder_.path("run/limits.sock");
  const std::string id_ = test::allocated(test::device_ids(30), "a").id.str();
  Result<void> outcome_;
  mutable std::mutex mutex_;
  std::vector<std::string> handled_;  // protected by mutex_
  std::unique_ptr<LimitServer> server_;
};

TEST_F(LimitServerTest, AnswersOkAfterTheLimitsAreSet) {
  start();
  EXPECT_EQ(ask(id_ + " 17\n"), kLimitsSet);
  EXPECT_THAT(handled(), ElementsAre(id_ + " 17"));
}

TEST_F(LimitServerTest, AnswersWhyTheyAreNotSetInOneLine) {
  outcome_ = error("no\nlimit");
  start();
  EXPECT_EQ(ask(id_ + " 17\n"), "no limit\n");
  server_.reset();
  outcome_ = error(std::string(5'000, 'x'));
  start();
  EXPECT_EQ(ask(id_ + " 17\n"), std::string(kLimitReplyBytesMax - 1, 'x') + "\n");
}

TEST_F(LimitServerTest, AcceptsARequestInParts) {
  start();
  const LimitClient client(path_);
  client.send(id_);
  client.send(" 1");
  client.send("7\n");
  EXPECT_EQ(client.reply(), kLimitsSet);
}

TEST_F(LimitServerTest, RefusesWhatIsNotARequest) {
  start();
  const std::vector<std::string> texts = {"\n",
                                          "{\"pid\": 17}\n",
                                          id_ + "\n",
                                          id_ + " \n",
                                          id_ + " 0\n",
                                          id_ + " -1\n",
                                          id_ + " 17 \n",
                                          id_ + " 17x\n",
                                          id_ + " 99999999999999999999\n",
                                          "../../" + id_ + " 17\n",
                                          " 17\n",
                                          id_ + " 17\n" + id_ + " 18\n",
                                          std::string("\0\xff\n", 3),
                                          std::string(300, 'a')};
  for (const std::string& text : texts) {
    EXPECT_EQ(ask(text), kNoRequest) << text;
  }
  EXPECT_THAT(handled(), IsEmpty());
}

TEST_F(LimitServerTest, ClosesAConnectionWithoutARequest) {
  start(std::chrono::milliseconds(20));
  const LimitClient silent(path_);
  EXPECT_EQ(silent.reply(), "");
  const LimitClient slow(path_);
  slow.send(id_ + " 1");
  EXPECT_EQ(slow.reply(), "");
  EXPECT_THAT(handled(), IsEmpty());
}

TEST_F(LimitServerTest, SlowClientsDelayNoOther) {
  start();
  std::vector<std::unique_ptr<LimitClient>> slow;
  for (std::size_t i = 0; i + 1 < kLimitClientsMax; ++i) {
    slow.push_back(std::make_unique<LimitClient>(path_));
    slow.back()->send(id_);
  }
  EXPECT_EQ(ask(id_ + " 17\n"), kLimitsSet);
  EXPECT_THAT(handled(), ElementsAre(id_ + " 17"));
}

TEST_F(LimitServerTest, ServesFurtherClientsAfterTooManySlowOnesHaveTimedOut) {
  start(std::chrono::milliseconds(50));
  std::vector<std::unique_ptr<LimitClient>> slow;
  for (std::size_t i = 0; i < kLimitClientsMax; ++i) {
    slow.push_back(std::make_unique<LimitClient>(path_));
  }
  // On a slow machine this client may be too late as well.
  std::string reply;
  for (int i = 0; i < 100 && reply != kLimitsSet; ++i) reply = ask(id_ + " 17\n");
  EXPECT_EQ(reply, kLimitsSet);
}

TEST_F(LimitServerTest, SurvivesAClientThatLeaves) {
  start();
  { const LimitClient leaves(path_); }
  {
    const LimitClient leaves(path_);
    leaves.send(id_ + " 16\n");
  }
  EXPECT_EQ(ask(id_ + " 17\n"), kLimitsSet);
}

TEST_F(LimitServerTest, TheSocketIsForItsUserOnly) {
  start();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(LimitServerTest, ReplacesTheSocketOfAnEarlierProcessAndRemovesItsOwn) {
  start();
  std::unique_ptr<LimitServer> earlier = std::move(server_);
  start();
  earlier.reset();
  EXPECT_EQ(ask(id_ + " 17\n"), kLimitsSet) << "it left the socket of its successor";
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LimitServerTest, ReportsASocketThatCannotBeMade) {
  const auto server = LimitServer::start("/dev/null/limits.sock", {});
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message,
              testing::StartsWith("cannot listen on /dev/null/limits.sock"));
  EXPECT_FALSE(LimitServer::start(folder_.path(std::string(200, 'x')), {}));
}

}  // namespace
}  // namespace mgpu::plugin
