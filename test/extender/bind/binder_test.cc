#include "extender/bind/binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/objects/object_protobuf.h"
#include "extender/bind/limits.h"
#include "extender/placement/reason.h"
#include "test/extender/bind/binder_fixture.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using mgpu::test::ManualExecutor;
using mgpu::test::used_text;
using test::BinderTest;
using test::create;
using test::delete_pod;
using test::is_bind;
using test::is_dry_run;
using test::is_get;
using test::is_lease;
using test::is_touch;
using test::PodText;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const PodText kMember{.spec = R"("schedulingGroup":{"podGroupName":"g"},)"};

TEST_F(BinderTest, WritesNodeAndCardsInOneBinding) {
  int posts = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    posts += request.method != kube::Method::kGet && !is_dry_run(request);
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

// kube-scheduler binds such a pod itself, and never calls.
TEST_F(BinderTest, APodThatNamesNoCardsIsRefused) {
  EXPECT_THAT(bind(create(server, {.requests = {""}}, "n1")),
              HasSubstr("no container names vke.volcengine.com/mgpu-core"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kBadRequest));
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

TEST_F(BinderTest, APodThatRequestsAnAmountOfZeroIsBoundWithoutAnnotations) {
  EXPECT_EQ(bind(create(server, {.requests = {"0"}}, "ghost")), "");
  EXPECT_EQ(test::pod_at(server, "p").node_name, "ghost");
  EXPECT_THAT(test::pod_at(server, "p").metadata.annotations, IsEmpty());
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
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
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(BinderTest, ABindEndsTheExpectedPlacement) {
  const BindingArgs args = create(server, {}, "n1");
  const auto pod = test::pod_at(server, "p");
  const auto request = *read_request(pod, options.contract, options.min_memory);
  ledger.reservations().expect(args.uid, args.node, request, {{{CardIndex(1)}}}, executor.now(),
                               executor.now() + Duration(1000));
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
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
  binder->start_reconciling();
  const BindingArgs args = create(server, {.requests = {"60/1024"}}, "n1");
  const kube::Pod unbound = test::pod_at(server, "p");
  binder->remember(unbound);
  lose_track({.kind = Fault::Kind::kLoseAnswer});
  EXPECT_NE(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/1024 1=0/0");
  clear_faults();
  executor.advance(kTouchBackoffMax + kReconcileInterval);
  binder->remember(unbound);
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/1024 1=0/0");
  EXPECT_EQ(test::pod_at(server, "p").metadata.annotations.at(options.contract.index_key("c0")),
            "0");
}

// Otherwise each attempt would hold another share for the pod.
TEST_F(BinderTest, APodIsNotBoundAgainBeforeTheOutcomeIsKnown) {
  binder->start_reconciling();
  const BindingArgs args = create(server, {}, "n1");
  const kube::Pod unbound = test::pod_at(server, "p");
  lose_track({.kind = Fault::Kind::kAnswer, .status = 504});
  for (int i = 0; i < 5; ++i) {
    binder->remember(unbound);
    EXPECT_THAT(bind(args), HasSubstr(i == 0 ? "not known whether it is bound"
                                             : "outcome of an earlier binding is not known yet"));
  }
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  clear_faults();
  executor.advance(kTouchBackoffMax + kReconcileInterval);
  binder->remember(unbound);
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

// A tenant may change a large pod so often that no touch of it succeeds.
TEST_F(BinderTest, AChangeByAnybodySettlesABinding) {
  const BindingArgs args = create(server, {}, "n1");
  int changes = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) return Fault{.kind = Fault::Kind::kAnswer, .status = 504};
    if (!is_touch(request)) return std::nullopt;
    annotate("p", "a", std::to_string(++changes));
    return Fault{.kind = Fault::Kind::kAnswer, .status = 504};
  });
  EXPECT_THAT(bind(args), HasSubstr("HTTP 504"));
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

// The watch has not shown the pod, and no attempt is counted any more.
TEST_F(BinderTest, WhatABoundPodSaysIsAssumedUntilTheWatchShowsIt) {
  test::add_node(ledger, "n2: 0[100/8000] 1[100/8000]");
  for (const bool cached : {false, true}) {
    for (const char* node : {"n1", "n2"}) {
      SCOPED_TRACE(node + std::to_string(cached));
      const BindingArgs args = create(server, {}, "n1");
      if (cached) binder->remember(test::pod_at(server, "p"));
      const Annotations other = {{options.contract.assumed, "true"},
                                 {options.contract.index_key("c0"), "1"}};
      server.call(kube::bind({args.pod, args.uid, NodeName(node), other}));
      EXPECT_EQ(bind(args).empty(), node == args.node.str());
      // A pod of another node that was read before anything was assumed is left to the watch.
      const bool assumed = cached || node == args.node.str();
      EXPECT_EQ(used_text(ledger, node), assumed ? "0=0/0 1=30/1024" : "0=0/0 1=0/0");
      EXPECT_EQ(ledger.reader().counts().assumed, assumed ? 1u : 0u);
      server.call(delete_pod("p"));
      ledger.remove_pod(args.uid);
    }
  }
}

TEST_F(BinderTest, APodBoundElsewhereIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  for (const bool cached : {false, true}) {
    if (cached) binder->remember(test::pod_at(server, "p"));
    before_bind([&] { server.call(kube::bind({args.pod, args.uid, NodeName("n2"), {}})); });
    EXPECT_THAT(bind(args), HasSubstr("bound already, to node n2")) << cached;
    EXPECT_EQ(outcomes.back(), BindOutcome::kConflict);
    EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  }
}

TEST_F(BinderTest, APodBoundByHandWithoutCardsIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  before_bind([&] { server.call(kube::bind({args.pod, args.uid, args.node, {}})); });
  EXPECT_THAT(bind(args), HasSubstr("without cards"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=30/1024");
  EXPECT_EQ(ledger.reader().counts().drifting, 1u);
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
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

TEST_F(BinderTest, ADeletedPodIsAConflict) {
  const BindingArgs args = create(server, {}, "n1");
  before_bind([&] { server.call(delete_pod("p")); });
  EXPECT_THAT(bind(args), HasSubstr("not found"));  // deleted before the POST
  EXPECT_NE(bind(args), "");                        // deleted before the GET
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kConflict, BindOutcome::kConflict));
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(BinderTest, APodThatIsDeletedAfterAConflictIsForgotten) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) return Fault{.kind = Fault::Kind::kAnswer, .status = 409};
    if (is_touch(request)) server.call(delete_pod("p"));
    return std::nullopt;
  });
  EXPECT_NE(bind(args), "");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(BinderTest, AConflictOverAnUnboundPodIsTriedAgainAFewTimes) {
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 409});
  EXPECT_NE(bind(create(server, {}, "n1")), "");
  EXPECT_EQ(outcomes.back(), BindOutcome::kConflict);
  EXPECT_EQ(conflicts, kBindPostsMax);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

// Others of the group may be bound already. kube-scheduler tries this one again.
TEST_F(BinderTest, TheCardsOfAMemberOfAGroupAreKeptAfterABindThatMayBeRepeated) {
  const BindingArgs args = create(server, kMember, "n1");
  for (const auto& [status, kept] : {std::pair(429, 1U), std::pair(409, 1U), std::pair(403, 0U)}) {
    fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = status});
    EXPECT_NE(bind(args), "") << status;
    EXPECT_EQ(ledger.reader().counts().assumed, 0U) << status;
    EXPECT_EQ(ledger.reader().counts().nominated, kept) << status;
  }
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
    EXPECT_EQ(ledger.reader().counts().assumed, 0u) << fault.status;
  }
  clear_faults();
  EXPECT_EQ(bind(args), "");
}

// --- preconditions -------------------------------------------------------------------------------

TEST_F(BinderTest, ABindingCarriesUidAndVersionOfTheCopyThatWasDecidedOn) {
  const BindingArgs args = create(server, {}, "n1");
  const std::string version = test::pod_at(server, "p").metadata.resource_version;
  std::string body;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (is_bind(request)) body = request.body;
    return std::nullopt;
  });
  EXPECT_EQ(bind(args), "");
  const auto binding = kube::read_binding_protobuf(body);
  ASSERT_TRUE(binding) << binding.error().message;
  EXPECT_EQ(binding->uid, args.uid);
  EXPECT_EQ(binding->resource_version, version);
}

TEST_F(BinderTest, TheLeaseIsReadAfterThePodAndBeforeThePost) {
  const BindingArgs args = create(server, {}, "n1");
  process.preconditions.run(args.pod, args.node, [](const kube::ApiResult<void>&) {});
  executor.run_ready();
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("pod", "lease", "bind"));
}

// kube-scheduler writes the status of a pod that it has rejected, and may filter an older copy
// next.
TEST_F(BinderTest, AChangeSinceFilterIsATouchAndASecondPost) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  annotate("p", "a", "b");
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("lease", "bind", "touch", "lease", "bind"));
  EXPECT_EQ(conflicts, 1);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

// kube-scheduler has nominated the pod for the node, because its volume had to be made first.
TEST_F(BinderTest, APodThatIsNominatedSinceFilterIsNotReadAgain) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  nominate("p", "n1");
  binder->remember_nominated(test::pod_at(server, "p"));
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("lease", "bind"));
  EXPECT_EQ(conflicts, 0);
}

TEST_F(BinderTest, APodWhoseNominationHasEndedIsReadAgain) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  nominate("p", "");
  binder->forget(args.uid);
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("pod", "lease", "bind"));
}

TEST_F(BinderTest, ANominatedPodThatFilterWasNotSentIsNotKept) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember_nominated(test::pod_at(server, "p"));
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("pod", "lease", "bind"));
}

// kube-scheduler nominates a pod that waits for its group, and the watch may show that later.
TEST_F(BinderTest, APodOfAGroupWaitsUntilItsNominationIsShown) {
  const BindingArgs args = create(server, kMember, "n1");
  binder->remember(test::pod_at(server, "p"));
  nominate("p", "n1");
  record();
  begin(args);
  executor.run_ready();
  EXPECT_THAT(sent, IsEmpty());
  binder->remember_nominated(test::pod_at(server, "p"));
  executor.run_ready();
  EXPECT_THAT(sent, ElementsAre("lease", "bind"));
  executor.advance(kNominationShownMax);
  EXPECT_THAT(sent, ElementsAre("lease", "bind"));
  EXPECT_EQ(answers, std::vector<std::string>{""});
  EXPECT_EQ(conflicts, 0);
}

TEST_F(BinderTest, APodOfAGroupWhoseNominationIsNotShownIsReadAgain) {
  const BindingArgs args = create(server, kMember, "n1");
  binder->remember(test::pod_at(server, "p"));
  nominate("p", "n2");
  binder->remember_nominated(test::pod_at(server, "p"));
  nominate("p", "n1");
  record();
  begin(args);
  executor.advance(kNominationShownMax);
  EXPECT_THAT(sent, ElementsAre("pod", "lease", "bind"));
  EXPECT_EQ(answers, std::vector<std::string>{""});
  EXPECT_EQ(conflicts, 0);
}

TEST_F(BinderTest, APodOfAGroupWaitsForTheNominationForItsNode) {
  const BindingArgs args = create(server, kMember, "n1");
  binder->remember(test::pod_at(server, "p"));
  record();
  begin(args);
  nominate("p", "n2");
  binder->remember_nominated(test::pod_at(server, "p"));
  executor.run_ready();
  EXPECT_THAT(sent, IsEmpty());
  nominate("p", "n1");
  binder->remember_nominated(test::pod_at(server, "p"));
  executor.run_ready();
  EXPECT_THAT(sent, ElementsAre("lease", "bind"));
  EXPECT_EQ(answers, std::vector<std::string>{""});
}

// kube-scheduler repeats a bind that it does not wait for any more.
TEST_F(BinderTest, ASecondBindOfAPodThatAwaitsItsNominationReadsIt) {
  const BindingArgs args = create(server, kMember, "n1");
  binder->remember(test::pod_at(server, "p"));
  begin(args);
  begin(args);
  executor.run_ready();
  executor.advance(kNominationShownMax);
  EXPECT_THAT(answers, ElementsAre("", ""));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(BinderTest, APodOfAGroupThatWasNominatedBeforeFilterIsBoundAtOnce) {
  const BindingArgs args = create(server, kMember, "n1");
  nominate("p", "n1");
  binder->remember(test::pod_at(server, "p"));
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("lease", "bind"));
}

// The others of its group may be bound meanwhile.
TEST_F(BinderTest, WhatAPodOfAGroupWasAnsweredIsKeptWhileItIsRead) {
  const BindingArgs args = create(server, kMember, "n1");
  binder->remember(test::pod_at(server, "p"));
  const Share whole{kWholeCard, MiB(8'000)};
  ledger.reservations().reserve(
      {args.uid, 0, "d", "d/g"}, {args.node, {{CardIndex(0), whole}, {CardIndex(1), whole}}, {}},
      {}, executor.now() + Duration(600'000), executor.now() + Duration(1'000));
  fail(is_get, {.kind = Fault::Kind::kDelay, .delay = Duration(60'000)});
  begin(args);
  executor.advance(2 * kBindTimeout);
  EXPECT_EQ(answers.size(), 1U) << "the API server does not answer";
  const std::vector<std::string_view> nodes{"n1"};
  EXPECT_EQ(ledger.decisions().why_not(nodes, ::mgpu::test::request_of("30/1024"), executor.now(),
                                       {PodUid("other")}),
            std::vector<std::optional<Reason>>{Reason::kNominated});
}

// PodTouch::settle() says why.
TEST_F(BinderTest, ALargePodIsTouchedBeforeItsBindingIsSent) {
  const BindingArgs args = test::create_long(server, kTouchedFirstBytes, "n1");
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("pod", "touch", "lease", "bind"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

// A second binding of a pod that perhaps cannot be touched any more could happen after it was
// forgotten.
TEST_F(BinderTest, APodThatHasGrownSinceFilterIsBoundByTheNextAttempt) {
  const BindingArgs args = create(server, {}, "n1");
  binder->remember(test::pod_at(server, "p"));
  annotate("p", "a", std::string(kTouchedFirstBytes - 100, 'x'));
  int posts = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    posts += is_bind(request) ? 1 : 0;
    if (!is_touch(request)) return std::nullopt;
    return Fault{.kind = Fault::Kind::kAnswer,
                 .status = 500,
                 .body = R"({"kind":"Status","code":500,)"
                         R"("message":"etcdserver: request is too large"})"};
  });
  EXPECT_THAT(bind(args), HasSubstr("409"));
  EXPECT_EQ(posts, 1);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  record();
  EXPECT_EQ(bind(args), "");
  EXPECT_THAT(sent, ElementsAre("pod", "touch", "lease", "bind"));
}

TEST_F(BinderTest, APodWithoutRoomForTheConditionIsNotBound) {
  const BindingArgs args = test::create_full(server, "n1");
  record();
  EXPECT_THAT(bind(args), HasSubstr("etcdserver: request is too large"));
  EXPECT_THAT(sent, ElementsAre("pod", "touch"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kConflict));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

// The tenant fills the pod after the binding was sent, which changes its resourceVersion.
TEST_F(BinderTest, ALostBindingOfAPodThatIsFullNowIsForgotten) {
  binder->start_reconciling();
  const BindingArgs args = create(server, {}, "n1");
  lose_track({.kind = Fault::Kind::kAnswer, .status = 504});
  EXPECT_THAT(bind(args), HasSubstr("not known whether it is bound"));
  clear_faults();
  fail(is_touch, {.kind = Fault::Kind::kAnswer,
                  .status = 500,
                  .body = R"({"kind":"Status","code":500,)"
                          R"("message":"etcdserver: request is too large"})"});
  executor.advance(kTouchBackoffMax + kReconcileInterval);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(BinderTest, ARequestThatChangedSinceFilterIsDecidedAgain) {
  const BindingArgs args = create(server, {.requests = {"100/4000"}}, "n1");
  binder->remember(test::pod_at(server, "p"));
  annotate("p", options.contract.container_multiple_gpu, "2");
  EXPECT_EQ(bind(args), "");
  EXPECT_EQ(test::pod_at(server, "p").metadata.annotations.at(options.contract.index_key("c0")),
            "0,1");
  EXPECT_EQ(used_text(ledger, "n1"), "0=50/2000 1=50/2000");
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
}

TEST_F(BinderTest, AServerThatIgnoresTheVersionOfABindingIsNotUsed) {
  // The first bind finds out where the cluster had no pod when the extender started.
  fail(is_dry_run, {.kind = Fault::Kind::kAnswer, .status = 201, .body = "{}"});
  EXPECT_EQ(bind(create(server, {}, "n1")), kPreconditionIgnored);
  EXPECT_EQ(outcomes.back(), BindOutcome::kUnavailable);
  EXPECT_TRUE(process.preconditions.ignored());
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

TEST_F(BinderTest, NoAnswerHasAUidThatTheCallerDidNotSend) {
  const BindingArgs old = create(server, {}, "n1");
  const kube::Pod cached = test::pod_at(server, "p");
  server.call(delete_pod("p"));
  const std::string uid = create(server, {}, "n1").uid.str();
  for (const bool touch_fails : {false, true}) {
    if (touch_fails) fail(is_touch, {.kind = Fault::Kind::kRefuse});
    for (const bool is_cached : {false, true}) {
      if (is_cached) binder->remember(cached);
      const std::string answer = bind(old);
      EXPECT_NE(answer, "");
      EXPECT_THAT(answer, testing::Not(HasSubstr(uid))) << touch_fails << is_cached;
    }
  }
  for (const std::string& problem : problems) EXPECT_THAT(problem, testing::Not(HasSubstr(uid)));
}

// --- the Lease -----------------------------------------------------------------------------------

TEST_F(BinderTest, NothingIsBoundOnceAnotherProcessHoldsTheLease) {
  const BindingArgs args = create(server, {}, "n1");
  EXPECT_EQ(bind(create(server, {.name = "before"}, "n1")), "");
  test::Process other(client, options.contract);
  other.lease.take([](const kube::ApiResult<void>& taken) { EXPECT_TRUE(taken); });
  executor.run_ready();
  record();
  EXPECT_THAT(bind(args), HasSubstr("no longer holds the lease kube-system/mgpu-extender"));
  EXPECT_THAT(sent, testing::Not(testing::Contains("bind")));
  EXPECT_THAT(process.lost, HasSubstr(other.lease.identity()));
  // It does not lead again.
  process.lease.take([](const kube::ApiResult<void>&) {});
  executor.run_ready();
  EXPECT_NE(bind(args), "");
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
}

TEST_F(BinderTest, WithoutAnAnswerAboutTheLeaseNothingIsAssumed) {
  fail(is_lease, {.kind = Fault::Kind::kLoseAnswer});
  EXPECT_THAT(bind(create(server, {}, "n1")), HasSubstr("get lease"));
  EXPECT_EQ(outcomes.back(), BindOutcome::kUnavailable);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(process.lost, "");
}

TEST_F(BinderTest, OneReadOfTheLeaseServesAllBindsThatWait) {
  make_binder(64);
  test::add_node(ledger, "big: 0[100/80000]");
  std::size_t reads = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_lease(request)) return std::nullopt;
    ++reads;
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(10)};
  });
  for (int i = 0; i < 64; ++i) {
    begin(create(server, {.name = "p" + std::to_string(i), .requests = {"1/256"}}, "big"));
  }
  executor.advance(Duration(1'000));
  EXPECT_THAT(answers, testing::AllOf(testing::SizeIs(64), testing::Each("")));
  EXPECT_LE(reads, kLeaseReadsInFlight + 1);
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

TEST_F(BinderTest, TheShareStaysAssumedWhereThePodCannotBeTouched) {
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (!is_bind(request) && !is_touch(request)) return std::nullopt;
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(60'000)};
  });
  begin(create(server, {}, "n1"));
  executor.advance(3 * kBindTimeout);
  EXPECT_THAT(answers, testing::SizeIs(1));
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
}

TEST_F(BinderTest, WithTooLittleTimeLeftNothingIsSentOrAssumed) {
  const Duration late = kBindTimeout - kBindPostTimeMin + Duration(1);
  for (bool (*slow)(const kube::Request&) : {is_get, is_lease}) {
    server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
      EXPECT_FALSE(is_bind(request));
      if (!slow(request)) return std::nullopt;
      return Fault{.kind = Fault::Kind::kDelay, .delay = late};
    });
    answers.clear();
    begin(create(server, {.name = slow == is_get ? "a" : "b"}, "n1"));
    executor.advance(late + Duration(1));
    EXPECT_THAT(answers, ElementsAre(HasSubstr("too few to send the binding")));
    EXPECT_EQ(outcomes.back(), BindOutcome::kUnavailable);
    EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  }
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
  executor.advance(Duration(kLeaseReadInterval) + Duration(60));
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
