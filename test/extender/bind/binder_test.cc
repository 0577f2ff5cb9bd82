#include "extender/bind/binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/bind/limits.h"
#include "extender/placement/reason.h"
#include "test/extender/bind/binder_world.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using kube::Fault;
using mgpu::test::ManualExecutor;
using mgpu::test::used_text;
using test::create;
using test::delete_pod;
using test::is_bind;
using test::is_get;
using test::PodText;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct BinderTest : testing::Test {
  BinderTest() {
    test::add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
    make_binder();
  }

  void make_binder(std::size_t in_flight = 8) {
    binder = std::make_unique<Binder>(
        client, ledger, settings, in_flight,
        BinderEvents{[this](BindOutcome outcome) { outcomes.push_back(outcome); },
                     [this](const std::string& problem) { problems.push_back(problem); }});
  }

  void begin(const BindingArgs& args) {
    binder->bind(args, [this](std::string error) { answers.push_back(std::move(error)); });
  }
  std::string bind(const BindingArgs& args) {
    begin(args);
    executor.run_ready();
    EXPECT_EQ(answers.size(), 1u);
    std::string answer = answers.empty() ? "no answer" : answers.back();
    answers.clear();
    return answer;
  }

  // Injects `fault` into the requests that `which` selects.
  void fail(bool (*which)(const kube::Request&), Fault fault) {
    server.set_faults([which, fault](const kube::Request& request) {
      return which(request) ? std::optional(fault) : std::nullopt;
    });
  }
  void clear_faults() { server.set_faults(nullptr); }
  // Runs `act` once, before the first POST of a binding is served.
  void before_bind(std::function<void()> act) {
    server.set_faults([act = std::move(act),
                       done = false](const kube::Request& request) mutable -> std::optional<Fault> {
      if (is_bind(request) && !std::exchange(done, true)) act();
      return std::nullopt;
    });
  }

  ManualExecutor executor;
  kube::MemoryApiServer server{executor, {}};
  kube::Client client{server};
  Ledger ledger;
  Settings settings = test::settings_of();
  std::vector<BindOutcome> outcomes;
  std::vector<std::string> problems;
  std::vector<std::string> answers;
  std::unique_ptr<Binder> binder;
};

TEST_F(BinderTest, WritesNodeAndCardsInOneBinding) {
  int posts = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    posts += request.method != kube::Method::kGet;
    return std::nullopt;
  });
  EXPECT_EQ(bind(create(server, {.requests = {"30/1024", "", "100/2000"}}, "n1")), "");
  EXPECT_EQ(posts, 1);
  const kube::Pod pod = test::pod_at(server, "p");
  EXPECT_EQ(pod.node_name, "n1");
  EXPECT_THAT(pod.metadata.annotations,
              ElementsAre(testing::Pair("vke.volcengine.com/assumed", "true"),
                          testing::Pair("vke.volcengine.com/gpu-index-container-c0", "1"),
                          testing::Pair("vke.volcengine.com/gpu-index-container-c2", "0")));
  EXPECT_EQ(used_text(ledger, "n1"), "0=100/2000 1=30/1024");
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kBound));
  EXPECT_EQ(binder->in_flight(), 0u);
}

TEST_F(BinderTest, ACachedPodIsNotRead) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  fail(is_get, {.kind = Fault::Kind::kRefuse});
  EXPECT_EQ(bind(args), "");
}

// The API server rejects such a pod; there is one annotation for each name of a container.
TEST_F(BinderTest, CardsThatWouldNotBeReadBackAreNotWritten) {
  const BindingArgs args = create(server, {.requests = {"30/1024", "100/2000"}}, "n1");
  kube::Pod equal_names = test::pod_at(server, "p");
  equal_names.containers[1].name = equal_names.containers[0].name;
  binder->remember(equal_names);
  fail(is_bind, {.kind = Fault::Kind::kRefuse});
  EXPECT_THAT(bind(args), HasSubstr("cannot be written to annotations"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kBadRequest));
  EXPECT_EQ(binder->in_flight(), 0u);
}

TEST_F(BinderTest, ACachedPodIsUsedForItsOwnUidOnly) {
  const BindingArgs args = create(server, {}, "n1");
  kube::Pod other = test::pod_at(server, "p");
  other.metadata.uid = "other";
  binder->remember(other);
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, AnUnfitPodIsAnsweredWithTheReasonAndNothingIsWritten) {
  EXPECT_EQ(bind(create(server, {.name = "a", .requests = {"200"}}, "n1")), "");
  EXPECT_THAT(bind(create(server, {.name = "b"}, "n1")), StartsWith(sentence(Reason::kCore)));
  EXPECT_EQ(test::pod_at(server, "b").node_name, "");
  EXPECT_THAT(bind(create(server, {.name = "c"}, "ghost")),
              StartsWith(sentence(Reason::kNodeUnknown)));
  EXPECT_EQ(outcomes.back(), BindOutcome::kUnfit);
}

TEST_F(BinderTest, ANonGpuPodIsBoundWithoutAnnotations) {
  EXPECT_EQ(bind(create(server, {.requests = {""}}, "ghost")), "");
  EXPECT_EQ(test::pod_at(server, "p").node_name, "ghost");
  EXPECT_THAT(test::pod_at(server, "p").metadata.annotations, IsEmpty());
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, BadRequestsAreRefusedBeforeAnythingIsWritten) {
  fail(is_bind, {.kind = Fault::Kind::kLoseAnswer});
  const std::vector<PodText> pods = {
      {.name = "long", .container = std::string(43, 'x')},
      {.name = "bare", .requests = {"30"}},
      {.name = "policy", .annotations = R"("vke.volcengine.com/mgpu-policy":"best")"},
  };
  for (const PodText& pod : pods) {
    EXPECT_NE(bind(create(server, pod, "n1")), "") << pod.name;
    EXPECT_EQ(outcomes.back(), BindOutcome::kBadRequest) << pod.name;
    EXPECT_EQ(test::pod_at(server, pod.name).node_name, "") << pod.name;
  }
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, ABindEndsTheExpectedPlacement) {
  const BindingArgs args = create(server, {}, "n1");
  const auto pod = test::pod_at(server, "p");
  const auto request = *read_request(pod, settings.contract, settings.min_memory);
  ledger.expect(args.uid, args.node, request, {{{CardIndex(1)}}}, executor.now(),
                executor.now() + Duration(1000));
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(ledger.counts().expected, 0u);
}

// --- lost answers --------------------------------------------------------------------------------

TEST_F(BinderTest, ALostAnswerIsResolvedByReadingThePod) {
  fail(is_bind, {.kind = Fault::Kind::kLoseAnswer});
  EXPECT_EQ(bind(create(server, {}, "n1")), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, ALostRequestStaysAssumedUntilThePodHasBeenReadAgain) {
  binder->start_reconciling();
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 504});
  EXPECT_THAT(bind(create(server, {}, "n1")), HasSubstr("not known whether it is bound"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kUnavailable));
  EXPECT_THAT(problems, testing::SizeIs(1));
  clear_faults();
  executor.advance(kAssumedReconcileAfter);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");  // too new for the first round
  executor.advance(kAssumedReconcileAfter);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(BinderTest, APodBoundByALostRequestKeepsItsCards) {
  binder->start_reconciling();
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) return Fault{.kind = Fault::Kind::kLoseAnswer};
    return Fault{.kind = Fault::Kind::kRefuse};
  });
  EXPECT_THAT(bind(args), HasSubstr("not known whether it is bound"));
  executor.advance(3 * kAssumedReconcileAfter);  // the pod cannot be read
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  EXPECT_EQ(ledger.counts().assumed, 1u);
  clear_faults();
  executor.advance(3 * kAssumedReconcileAfter);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  test::PodWatch watch(server, ledger, settings.contract);
  executor.advance(Duration(100));
  EXPECT_EQ(ledger.counts().assumed, 0u);
  EXPECT_EQ(ledger.counts().bound, 1u);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, TheReconcilerForgetsDeletedPods) {
  binder->start_reconciling();
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 500});
  bind(create(server, {}, "n1"));
  clear_faults();
  server.call(delete_pod("p"));
  executor.advance(2 * kAssumedReconcileAfter);
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, TheReconcilerReadsABoundedNumberOfPodsAtATime) {
  test::add_node(ledger, "big: 0[100/80000]");
  std::size_t reading = 0, most = 0, reads = 0;
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 500});
  for (int i = 0; i < 60; ++i) {
    bind(create(server, {.name = "p" + std::to_string(i), .requests = {"1/256"}}, "big"));
  }
  ASSERT_EQ(ledger.counts().assumed, 60u);
  server.set_faults([&](const kube::Request&) -> std::optional<Fault> {
    ++reads;
    most = std::max(most, ++reading);
    executor.after(Duration(100), [&] { --reading; });
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(100)};
  });
  binder->start_reconciling();
  executor.advance(2 * kAssumedReconcileAfter + Duration(2000));
  EXPECT_EQ(ledger.counts().assumed, 0u);
  EXPECT_EQ(reads, 60u);
  EXPECT_LE(most, kReconciliationsInFlight);
}

// --- conflicts -----------------------------------------------------------------------------------

TEST_F(BinderTest, ARepeatedBindIsASuccess) {
  const BindingArgs args = create(server, {}, "n1");
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, ARepeatedBindOfACachedPodIsASuccessAndHoldsItsCardsOnce) {
  const BindingArgs args = create(server, {}, "n1");
  const kube::Pod unbound = test::pod_at(server, "p");
  EXPECT_EQ(bind(args), "");
  binder->remember(unbound);
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, ARetryAfterALostAnswerIsASuccess) {
  // The pod keeps the cards of the first attempt.
  const BindingArgs args = create(server, {.requests = {"60/1024"}}, "n1");
  const kube::Pod unbound = test::pod_at(server, "p");
  binder->remember(unbound);
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) return Fault{.kind = Fault::Kind::kLoseAnswer};
    return Fault{.kind = Fault::Kind::kRefuse};
  });
  EXPECT_NE(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/1024 1=0/0");
  clear_faults();
  binder->remember(unbound);
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/1024 1=0/0");
  EXPECT_EQ(test::pod_at(server, "p").metadata.annotations.at(settings.contract.index_key("c0")),
            "0");
}

TEST_F(BinderTest, APodBoundElsewhereIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  for (const bool cached : {false, true}) {
    if (cached) binder->remember(test::pod_at(server, "p"));
    before_bind([&] { server.call(kube::bind({args.pod, args.uid, NodeName("n2"), {}})); });
    EXPECT_THAT(bind(args), HasSubstr("bound already, to node n2")) << cached;
    EXPECT_EQ(outcomes.back(), BindOutcome::kConflict);
    EXPECT_EQ(ledger.counts().assumed, 0u);
  }
}

TEST_F(BinderTest, APodBoundByHandWithoutCardsIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  before_bind([&] { server.call(kube::bind({args.pod, args.uid, args.node, {}})); });
  EXPECT_THAT(bind(args), HasSubstr("without cards"));
  EXPECT_EQ(ledger.counts().assumed, 0u);
  EXPECT_THAT(bind(args), HasSubstr("without cards"));  // read before the POST this time
}

TEST_F(BinderTest, AnotherPodOfThatNameIsAConflict) {
  const BindingArgs old = create(server, {}, "n1");
  const kube::Pod cached = test::pod_at(server, "p");
  server.call(delete_pod("p"));
  create(server, {}, "n1");
  EXPECT_THAT(bind(old), HasSubstr("deleted and created again"));
  binder->remember(cached);
  EXPECT_THAT(bind(old), HasSubstr("deleted and created again"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kConflict, BindOutcome::kConflict));
  EXPECT_EQ(ledger.counts().assumed, 0u);
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

TEST_F(BinderTest, ADeletedPodIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  before_bind([&] { server.call(delete_pod("p")); });
  EXPECT_THAT(bind(args), HasSubstr("not found"));  // deleted before the POST
  EXPECT_NE(bind(args), "");                        // deleted before the GET
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kConflict, BindOutcome::kConflict));
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, APodThatIsDeletedAfterAConflictIsForgotten) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) return Fault{.kind = Fault::Kind::kAnswer, .status = 409};
    server.call(delete_pod("p"));
    return std::nullopt;
  });
  EXPECT_NE(bind(args), "");
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, AConflictOverAnUnboundPodIsForgottenAtOnce) {
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 409});
  EXPECT_NE(bind(create(server, {}, "n1")), "");
  EXPECT_EQ(outcomes.back(), BindOutcome::kConflict);
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

TEST_F(BinderTest, AClaimIsForgottenAtOnceAfterAnAnswerThatChangedNothing) {
  const BindingArgs args = create(server, {}, "n1");
  const std::vector<std::pair<Fault, BindOutcome>> cases = {
      {{.kind = Fault::Kind::kRefuse}, BindOutcome::kUnavailable},
      {{.kind = Fault::Kind::kAnswer, .status = 429}, BindOutcome::kUnavailable},
      {{.kind = Fault::Kind::kAnswer, .status = 403}, BindOutcome::kConflict},
      {{.kind = Fault::Kind::kAnswer, .status = 422}, BindOutcome::kConflict},
  };
  for (const auto& [fault, outcome] : cases) {
    fail(is_bind, fault);
    EXPECT_NE(bind(args), "") << fault.status;
    EXPECT_EQ(outcomes.back(), outcome) << fault.status;
    EXPECT_EQ(ledger.counts().assumed, 0u) << fault.status;
  }
  clear_faults();
  EXPECT_EQ(bind(args), "");
}

TEST_F(BinderTest, APodThatCannotBeReadFirstIsNotBound) {
  fail(is_get, {.kind = Fault::Kind::kRefuse});
  EXPECT_NE(bind(create(server, {}, "n1")), "");
  EXPECT_EQ(outcomes.back(), BindOutcome::kUnavailable);
  clear_faults();
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

// --- deadlines and queues ------------------------------------------------------------------------

TEST_F(BinderTest, ASlowBindIsAnsweredInTimeAndStillRunsToItsEnd) {
  fail(is_bind, {.kind = Fault::Kind::kDelay, .delay = Duration(60'000)});
  begin(create(server, {}, "n1"));
  executor.advance(kBindTimeout - Duration(1));
  EXPECT_THAT(answers, IsEmpty());
  executor.advance(Duration(1));
  ASSERT_THAT(answers, testing::SizeIs(1));
  EXPECT_EQ(binder->in_flight(), 0u);
  executor.advance(kBindTimeout);
  // The pod has been read since: it is bound, and its cards are held.
  EXPECT_EQ(test::pod_at(server, "p").node_name, "n1");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  EXPECT_THAT(answers, testing::SizeIs(1));
  EXPECT_THAT(outcomes, testing::SizeIs(1));
}

TEST_F(BinderTest, TheDeadlineIsOfAllStepsTogether) {
  server.set_faults([](const kube::Request&) -> std::optional<Fault> {
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(2'500)};
  });
  begin(create(server, {}, "n1"));
  executor.advance(kBindTimeout);
  ASSERT_THAT(answers, testing::SizeIs(1));
  EXPECT_THAT(answers[0], HasSubstr("did not answer within 4000 milliseconds"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kUnavailable));
}

TEST_F(BinderTest, TheShareStaysAssumedWhereThePodCannotBeRead) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  server.set_faults([](const kube::Request&) -> std::optional<Fault> {
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(60'000)};
  });
  begin(args);
  executor.advance(3 * kBindTimeout);
  EXPECT_THAT(answers, testing::SizeIs(1));
  EXPECT_EQ(ledger.counts().assumed, 1u);
}

TEST_F(BinderTest, RunsNoMoreThanItsLimitAtATime) {
  make_binder(3);
  std::size_t open = 0, most = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_bind(request)) return std::nullopt;
    most = std::max(most, ++open);
    executor.after(Duration(10), [&] { --open; });
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(10)};
  });
  for (int i = 0; i < 20; ++i) {
    begin(create(server, {.name = "p" + std::to_string(i), .requests = {"5/256"}}, "n1"));
  }
  EXPECT_EQ(binder->in_flight(), 20u);
  executor.advance(Duration(1'000));
  EXPECT_THAT(answers, testing::AllOf(testing::SizeIs(20), testing::Each("")));
  EXPECT_LE(most, 3u);
  EXPECT_EQ(binder->in_flight(), 0u);
}

TEST_F(BinderTest, ABindThatExpiresInTheQueueIsNotSent) {
  make_binder(1);
  fail(is_bind, {.kind = Fault::Kind::kDelay, .delay = Duration(60'000)});
  begin(create(server, {.name = "a"}, "n1"));
  begin(create(server, {.name = "b"}, "n1"));
  executor.advance(kBindTimeout);
  ASSERT_THAT(answers, testing::SizeIs(2));
  EXPECT_THAT(answers, testing::Contains(HasSubstr("did not start within")));
  executor.advance(5 * kBindTimeout);
  EXPECT_EQ(test::pod_at(server, "b").node_name, "");
}

TEST_F(BinderTest, AFullQueueRefusesAtOnce) {
  make_binder(1);
  fail(is_get, {.kind = Fault::Kind::kDelay, .delay = Duration(60'000)});
  const BindingArgs args{{"d", "p"}, PodUid("u"), NodeName("n1")};
  for (std::size_t i = 0; i < kBindsQueuedMax + 1; ++i) begin(args);
  executor.run_ready();
  EXPECT_THAT(answers, IsEmpty());
  begin(args);
  executor.run_ready();
  EXPECT_THAT(answers, ElementsAre("4096 binds are waiting already"));
  // Attempts that expire make room.
  executor.advance(kBindTimeout);
  EXPECT_EQ(binder->in_flight(), 0u);
  clear_faults();
  executor.advance(2 * kBindTimeout);
  answers.clear();
  begin(create(server, {}, "n1"));
  executor.advance(Duration(1));
  EXPECT_THAT(answers, ElementsAre(""));
}

// --- destruction ---------------------------------------------------------------------------------

TEST_F(BinderTest, RunsNoCallbackAfterItsEnd) {
  make_binder(1);
  binder->start_reconciling();
  for (int i = 0; i < 5; ++i) {
    begin(create(server, {.name = "p" + std::to_string(i), .requests = {"5/256"}}, "n1"));
  }
  binder.reset();
  executor.advance(Duration(60'000));
  EXPECT_THAT(answers, IsEmpty());
  EXPECT_THAT(outcomes, IsEmpty());
}

TEST_F(BinderTest, RunsNoCallbackAfterItsEndDuringBinds) {
  make_binder(2);
  fail(is_bind, {.kind = Fault::Kind::kDelay, .delay = Duration(50)});
  for (int i = 0; i < 5; ++i) {
    begin(create(server, {.name = "p" + std::to_string(i), .requests = {"5/256"}}, "n1"));
  }
  executor.advance(Duration(60));
  const std::size_t before = answers.size();
  EXPECT_EQ(before, 2u);
  binder.reset();
  executor.advance(Duration(60'000));
  EXPECT_EQ(answers.size(), before);
}

TEST_F(BinderTest, MayBeDestroyedInItsOwnAnswer) {
  binder->bind(create(server, {.name = "a"}, "n1"), [this](const std::string&) { binder.reset(); });
  begin(create(server, {.name = "b"}, "n1"));
  executor.advance(Duration(60'000));
  EXPECT_EQ(binder, nullptr);
}

}  // namespace
}  // namespace mgpu::extender
