#include "extender/requeue/requeue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "extender/requeue/limits.h"
#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Gives the answers of a script, then 200, and records the requests.
class ScriptedApi final : public kube::Transport {
 public:
  explicit ScriptedApi(Executor& executor) : executor_(executor) {}
  void send(kube::Request request, std::function<void(kube::Response)> done) override {
    methods.push_back(request.method == kube::Method::kPost ? "POST" : "PATCH");
    bodies.push_back(request.body);
    if (silent) return held.push_back(std::move(done));
    kube::Response answer;
    answer.status = 200;
    if (!answers.empty()) {
      answer = answers.front();
      answers.pop_front();
    }
    executor_.post([done = std::move(done), answer] { done(answer); });
  }
  std::unique_ptr<kube::Stream> stream(kube::Request, kube::StreamEvents) override {
    return nullptr;
  }
  Executor& executor() override { return executor_; }

  std::vector<std::string> methods;
  std::vector<std::string> bodies;
  std::deque<kube::Response> answers;
  bool silent = false;
  std::vector<std::function<void(kube::Response)>> held;

 private:
  Executor& executor_;
};

kube::Response status(int code) {
  kube::Response response;
  response.status = code;
  response.body = fmt::format(R"({{"kind":"Status","code":{0},"message":"status {0}"}})", code);
  return response;
}

class RequeueTest : public testing::Test {
 protected:
  // kube-scheduler filters the pod.
  void filter(const char* pod, const FilterReply& reply, std::vector<std::string_view> asked = {}) {
    const auto decide = [this, reply](Instant) {
      ++decisions_;
      return reply;
    };
    requeue_->filter(PodUid(pod), asked_.emplace_back(std::move(asked)), decide,
                     [this](const FilterReply&) { ++answers_; });
  }
  void reject(const char* pod) { filter(pod, {.outcome = FilterOutcome::kMayChangeLater}); }
  // A node with cards appears.
  void release() {
    NodeFacts node;
    node.name = NodeName("n" + std::to_string(nodes_++));
    node.cards.resize(1);
    const std::uint64_t before = ledger_.reader().releases();
    ledger_.apply_node(node);
    ASSERT_GT(ledger_.reader().releases(), before);
  }
  void strand(const char* pod) {
    reject(pod);
    release();
  }
  // Long enough for a requeue.
  void pass() { executor_.advance(kRequeueDelay + 3 * kRequeuePoll); }
  std::unique_ptr<Requeue> make(std::string name_space) {
    return std::make_unique<Requeue>(
        client_, ledger_, executor_, std::move(name_space),
        RequeueEvents{
            .on_outcome = [this](RequeueOutcome outcome) { outcomes_.push_back(outcome); },
            .on_problem = [this](const auto& problem) { problems_.push_back(problem); }});
  }

  test::ManualExecutor executor_;
  ScriptedApi api_{executor_};
  kube::Client client_{api_};
  Ledger ledger_;
  int nodes_ = 0;
  int decisions_ = 0;
  int answers_ = 0;
  std::deque<std::vector<std::string_view>> asked_;
  std::vector<RequeueOutcome> outcomes_;
  std::vector<std::string> problems_;
  std::unique_ptr<Requeue> requeue_ = make("kube-system");
};

TEST_F(RequeueTest, WritesTheObjectOnceForAPodThatWasRejectedBeforeARelease) {
  strand("a");
  pass();
  EXPECT_THAT(api_.methods, ElementsAre("PATCH"));
  EXPECT_THAT(outcomes_, ElementsAre(RequeueOutcome::kRequeued));
  executor_.advance(std::chrono::minutes(1));
  EXPECT_EQ(api_.methods.size(), 1U);
}

TEST_F(RequeueTest, WritesNothingWithoutAReleaseOrWhenThePodIsFilteredAgain) {
  reject("a");
  pass();
  strand("b");
  filter("a", {.outcome = FilterOutcome::kFits});
  requeue_->on_settled(PodUid("b"));
  pass();
  EXPECT_TRUE(api_.methods.empty());
}

TEST_F(RequeueTest, OnlyARejectionThatMayChangeAtOnceWaits) {
  for (const auto outcome : {FilterOutcome::kFits, FilterOutcome::kRejected,
                             FilterOutcome::kMayChangeLater, FilterOutcome::kNeedsOtherCards}) {
    filter("a", {.outcome = outcome});
  }
  EXPECT_EQ(answers_, 4);
  filter("a", {.outcome = FilterOutcome::kMayChange});
  EXPECT_EQ(answers_, 4);
  executor_.advance(kRejectionDelay);
  EXPECT_EQ(answers_, 5);
  EXPECT_EQ(decisions_, 5) << "nothing became free";
}

// kube-scheduler may have seen the cards of the node first.
TEST_F(RequeueTest, APodThatNeedsOtherCardsIsTriedAgainWhenCardsChange) {
  ledger_.apply_pod(test::bound_claim("b", "n", "10/1024", "0"));
  filter("a", {.outcome = FilterOutcome::kNeedsOtherCards});
  ledger_.remove_pod(PodUid("b"));
  pass();
  EXPECT_TRUE(api_.methods.empty()) << "a pod that ends does not help";
  release();
  pass();
  EXPECT_THAT(api_.methods, ElementsAre("PATCH"));
}

TEST_F(RequeueTest, ARejectionThatWaitedIsRememberedOnceItIsAnswered) {
  filter("a", {.outcome = FilterOutcome::kMayChange});
  release();
  requeue_->on_change();
  executor_.advance(kRejectionDelayMax);
  EXPECT_EQ(decisions_, 2);
  EXPECT_EQ(answers_, 1);
  pass();
  EXPECT_TRUE(api_.methods.empty()) << "it was decided after the release";
  release();
  pass();
  EXPECT_THAT(api_.methods, ElementsAre("PATCH"));
}

TEST_F(RequeueTest, ARejectionWaitsForNoReleaseOnceSearchesHaveEnded) {
  ledger_.decisions().end_searches();
  filter("a", {.outcome = FilterOutcome::kMayChange});
  EXPECT_EQ(answers_, 1);
}

TEST_F(RequeueTest, APodThatFitsElsewhereIsAnsweredAndRequeuedAtOnce) {
  filter("a",
         {.outcome = FilterOutcome::kMayChange, .fitting_elsewhere = {"z"}, .replica_group = 1},
         {"x"});
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(requeue_->take_wait(PodUid("a")));
  executor_.run_ready();
  EXPECT_THAT(api_.methods, ElementsAre("PATCH"));
}

// Otherwise its second decision would find that no node is new.
TEST_F(RequeueTest, ARejectionThatWaitsDoesNotEndTheSearchOfItsGroup) {
  const auto fits_on = [](const char* node) {
    return FilterReply{
        .outcome = FilterOutcome::kMayChange, .fitting_elsewhere = {node}, .replica_group = 1};
  };
  filter("a", fits_on("z"), {"x"});
  EXPECT_TRUE(requeue_->take_wait(PodUid("a")));
  filter("b", fits_on("x"), {"y"});
  EXPECT_FALSE(requeue_->take_wait(PodUid("b"))) << "kube-scheduler has examined x";
  executor_.advance(kRejectionDelay);
  EXPECT_EQ(answers_, 2);
  filter("a", fits_on("z"), {"w"});
  EXPECT_TRUE(requeue_->take_wait(PodUid("a")));
}

TEST_F(RequeueTest, EachWriteDiffersFromTheOneBefore) {
  for (int i = 0; i < 2; ++i) {
    strand("a");
    pass();
  }
  ASSERT_EQ(api_.bodies.size(), 2U);
  EXPECT_NE(api_.bodies[0], api_.bodies[1]);
}

TEST_F(RequeueTest, TwoProcessesWriteDifferentValues) {
  strand("a");
  pass();
  requeue_ = make("kube-system");
  strand("a");
  pass();
  ASSERT_EQ(api_.bodies.size(), 2U);
  EXPECT_NE(api_.bodies[0], api_.bodies[1]);
}

TEST_F(RequeueTest, CreatesTheObjectWhereItIsMissing) {
  for (const int created : {201, 409}) {
    api_.methods.clear();
    api_.answers = {status(404), status(created)};
    strand("a");
    pass();
    EXPECT_THAT(api_.methods, ElementsAre("PATCH", "POST"));
    EXPECT_EQ(outcomes_.back(), RequeueOutcome::kRequeued) << created;
  }
  EXPECT_TRUE(problems_.empty());
}

TEST_F(RequeueTest, AProblemIsReportedOnceAndRetriesBecomeRarer) {
  for (int i = 0; i < 20; ++i) api_.answers.push_back(status(403));
  strand("a");
  executor_.advance(std::chrono::seconds(40));
  EXPECT_GT(api_.methods.size(), 4U);
  EXPECT_LT(api_.methods.size(), 8U);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], HasSubstr("status 403"));
  EXPECT_THAT(problems_[0], HasSubstr("the Role mgpu-extender"));
  EXPECT_THAT(outcomes_, testing::Each(RequeueOutcome::kRefused));
}

TEST_F(RequeueTest, AnotherProblemIsReportedAndTheSameOneAfterASuccess) {
  api_.answers = {status(403), status(503), status(200)};
  strand("a");
  executor_.advance(std::chrono::seconds(20));
  EXPECT_THAT(outcomes_, ElementsAre(RequeueOutcome::kRefused, RequeueOutcome::kFailed,
                                     RequeueOutcome::kRequeued));
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("403"), HasSubstr("503")));
  api_.answers = {status(503)};
  strand("a");
  pass();
  EXPECT_EQ(problems_.size(), 3U);
}

TEST_F(RequeueTest, AMissingNamespaceIsReportedWithTheFlag) {
  api_.answers = {status(404), status(404)};
  strand("a");
  pass();
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], HasSubstr("--requeue-namespace"));
}

TEST_F(RequeueTest, WritesOneAtATimeAndNoCallBlocks) {
  api_.silent = true;
  strand("a");
  pass();
  strand("b");
  executor_.advance(std::chrono::minutes(1));
  EXPECT_EQ(api_.held.size(), 1U);
  api_.silent = false;
  api_.held[0](status(200));
  pass();
  EXPECT_EQ(api_.methods.size(), 2U) << "b was stranded after the first had been sent";
}

TEST_F(RequeueTest, ManyReleasesCauseOneRequeuePerInterval) {
  const Instant begin = executor_.now();
  for (int i = 0; i < 40; ++i) {
    strand(("pod-" + std::to_string(i)).c_str());
    executor_.advance(kRequeueQuiet + Duration(100));
  }
  const auto intervals = static_cast<std::size_t>((executor_.now() - begin) / kRequeueInterval);
  EXPECT_GT(api_.methods.size(), intervals / 4);
  EXPECT_LE(api_.methods.size(), intervals);
}

TEST_F(RequeueTest, RequeuesNoPodWithoutANamespace) {
  requeue_ = make("");
  strand("a");
  pass();
  EXPECT_TRUE(api_.methods.empty());
  EXPECT_EQ(executor_.pending(), 0U);
}

TEST_F(RequeueTest, RunsNoCallbackAfterItsEnd) {
  api_.silent = true;
  strand("a");
  pass();
  ASSERT_EQ(api_.held.size(), 1U);
  requeue_.reset();
  api_.held[0](status(403));
  executor_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(RequeueTest, HasNoTimerWhileNoPodWaits) {
  reject("a");
  EXPECT_GT(executor_.pending(), 0U);
  filter("a", {.outcome = FilterOutcome::kRejected});
  pass();
  EXPECT_EQ(executor_.pending(), 0U);
}

// A kube-scheduler that tries one pod after another, each about the next nodes. Nothing changes in
// the cluster, and the only node that fits is one that its own filters exclude.
class QuietCluster {
 public:
  QuietCluster(Requeue& requeue, const std::vector<std::string>& requeues,
               test::ManualExecutor& executor)
      : requeue_(requeue), requeues_(requeues), executor_(executor) {
    for (int i = 0; i < kNodes; ++i) names_.push_back("a" + std::to_string(i));
    for (int i = 0; i < kNodes; ++i) nodes_.emplace_back(names_[static_cast<std::size_t>(i)]);
  }
  void add(std::size_t pods, std::size_t groups) {
    for (std::size_t i = 0; i < pods; ++i)
      queue_.push_back({PodUid(std::to_string(i)), i % groups});
  }
  void run(Duration time) {
    const Instant end = executor_.now() + time;
    while (executor_.now() < end) {
      for (; !tried_.empty() && executor_.now() - tried_.front().second > std::chrono::minutes(5);
           tried_.pop_front())
        queue_.push_back(tried_.front().first);
      if (seen_requeues_ != requeues_.size()) {
        seen_requeues_ = requeues_.size();
        for (const auto& pod : std::exchange(tried_, {})) queue_.push_back(pod.first);
      }
      if (!queue_.empty()) try_first();
      executor_.advance(queue_.empty() ? kRequeuePoll : Duration(3));
    }
  }
  std::size_t filters = 0;

 private:
  static constexpr int kNodes = 130;
  struct Waiting {
    PodUid uid;
    ReplicaGroup group;
  };

  void try_first() {
    const Waiting pod = queue_.front();
    queue_.pop_front();
    std::vector<std::string_view> asked;
    for (int i = 0; i < 100; ++i)
      asked.push_back(nodes_[(next_ + static_cast<std::size_t>(i)) % nodes_.size()]);
    next_ = (next_ + 100) % nodes_.size();
    ++filters;
    const FilterReply reply{.outcome = FilterOutcome::kMayChangeLater,
                            .fitting_elsewhere = {"b"},
                            .replica_group = pod.group};
    requeue_.filter(
        pod.uid, asked, [&](Instant) { return reply; }, [](const FilterReply&) {});
    requeue_.take_wait(pod.uid);
    tried_.emplace_back(pod, executor_.now());
  }

  Requeue& requeue_;
  const std::vector<std::string>& requeues_;
  test::ManualExecutor& executor_;
  std::vector<std::string> names_;
  std::vector<std::string_view> nodes_;
  std::deque<Waiting> queue_;
  std::deque<std::pair<Waiting, Instant>> tried_;
  std::size_t seen_requeues_ = 0;
  std::size_t next_ = 0;
};

TEST_F(RequeueTest, AQuietClusterIsQuiet) {
  for (const std::size_t pods : {50U, 100U, 1'000U, 10'000U}) {
    for (const std::size_t groups : {std::size_t{1}, pods}) {
      SCOPED_TRACE(fmt::format("{} pods in {} groups", pods, groups));
      requeue_ = make("kube-system");
      api_.methods.clear();
      QuietCluster cluster(*requeue_, api_.methods, executor_);
      cluster.add(pods, groups);
      cluster.run(std::chrono::seconds(60));
      EXPECT_LE(api_.methods.size(), 2U * kUrgentRequeuesMax);
      const std::size_t before = api_.methods.size();
      cluster.filters = 0;
      // The last round has begun by then.
      cluster.run(std::chrono::seconds(40));
      EXPECT_LE(cluster.filters, pods);
      cluster.filters = 0;
      cluster.run(std::chrono::minutes(15));
      EXPECT_EQ(api_.methods.size(), before);
      EXPECT_LE(cluster.filters, 3 * pods) << "kube-scheduler's own, each five minutes";
    }
  }
}

TEST_F(RequeueTest, TheObjectChangesAtTheApiServerWithEachRequeue) {
  kube::MemoryApiServer server(executor_, {});
  kube::Client client(server);
  requeue_ =
      std::make_unique<Requeue>(client, ledger_, executor_, "default",
                                RequeueEvents{[](RequeueOutcome) {}, [](const std::string&) {}});
  const auto object = [&] {
    kube::Request get;
    get.target = std::string("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/") +
                 kRequeueObject;
    return server.call(get);
  };
  std::string before = object().body;
  for (int i = 0; i < 3; ++i) {
    strand("a");
    pass();
    EXPECT_EQ(object().status, 200);
    EXPECT_NE(std::exchange(before, object().body), object().body);
  }
}

}  // namespace
}  // namespace mgpu::extender
