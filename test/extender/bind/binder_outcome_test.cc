// Binds whose answers were lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/extender/bind/binder_fixture.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using mgpu::test::used_text;
using test::BinderTest;
using test::create;
using test::delete_pod;
using test::is_bind;
using test::is_touch;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(BinderTest, ALostAnswerIsResolvedByTouchingThePod) {
  fail(is_bind, {.kind = Fault::Kind::kLoseAnswer});
  EXPECT_EQ(bind(create(server, {}, "n1")), "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  EXPECT_THAT(process.touches, ElementsAre(TouchResult::kBound));
}

TEST_F(BinderTest, ALostRequestIsSentAgainAfterATouch) {
  int posts = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_bind(request) || ++posts > 1) return std::nullopt;
    return Fault{.kind = Fault::Kind::kAnswer, .status = 504};
  });
  EXPECT_EQ(bind(create(server, {}, "n1")), "");
  EXPECT_THAT(process.touches, ElementsAre(TouchResult::kUnbound));
  EXPECT_EQ(test::pod_at(server, "p").node_name, "n1");
}

TEST_F(BinderTest, ARequestThatIsLostEachTimeIsForgottenAfterTheLastTouch) {
  fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 504});
  EXPECT_THAT(bind(create(server, {}, "n1")), HasSubstr("HTTP 504"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kUnavailable));
  EXPECT_THAT(process.touches, testing::SizeIs(kBindPostsMax));
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(BinderTest, TheShareStaysAssumedUntilATouchIsAnswered) {
  binder->start_reconciling();
  lose_track({.kind = Fault::Kind::kAnswer, .status = 504});
  EXPECT_THAT(bind(create(server, {}, "n1")), HasSubstr("not known whether it is bound"));
  EXPECT_THAT(outcomes, ElementsAre(BindOutcome::kUnavailable));
  executor.advance(Duration(3'600'000));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  // An hour of the longest backoff, and the first touches.
  EXPECT_LT(process.touches.size(), 140u);
  EXPECT_GT(process.touches.size(), 100u);
  clear_faults();
  executor.advance(kTouchBackoffMax + kReconcileInterval);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(BinderTest, APodBoundByALostRequestKeepsItsCards) {
  binder->start_reconciling();
  const BindingArgs args = create(server, {}, "n1");
  lose_track({.kind = Fault::Kind::kLoseAnswer});
  EXPECT_THAT(bind(args), HasSubstr("not known whether it is bound"));
  executor.advance(Duration(60'000));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
  clear_faults();
  executor.advance(2 * kTouchBackoffMax);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  test::PodWatch watch(server, ledger, options.contract);
  executor.advance(Duration(100));
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
}

// The API server, or a proxy, still works on a request whose answer was lost, or was not an answer
// to it. Before there were touches, the card was given away in between.
TEST_F(BinderTest, AWriteThatComesLateDoesNotTakeACardThatWasGivenAway) {
  const std::vector<Fault> faults = {
      {.kind = Fault::Kind::kServeLater, .status = 0, .delay = Duration(15'000)},
      {.kind = Fault::Kind::kServeLater,
       .status = 409,
       .body = R"({"kind":"Status","code":409,"reason":"Conflict","message":)"
               R"("Operation cannot be fulfilled on pods/binding \"late\": etcdserver: )"
               R"(leader changed"})",
       .delay = Duration(15'000)},
      {.kind = Fault::Kind::kServeLater, .status = 503, .body = "", .delay = Duration(15'000)},
      {.kind = Fault::Kind::kServeLater, .status = 429, .body = "no", .delay = Duration(15'000)},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.status);
    binder->start_reconciling();
    fail(is_bind, fault);
    EXPECT_NE(bind(create(server, {.name = "late", .requests = {"200"}}, "n1")), "");
    clear_faults();
    executor.advance(kReconcileInterval);
    EXPECT_EQ(bind(create(server, {.name = "next", .requests = {"200"}}, "n1")), "");
    executor.advance(Duration(60'000));
    EXPECT_EQ(test::fullest_card(server), 100);
    EXPECT_EQ(test::pod_at(server, "late").node_name, "");
    for (const char* name : {"late", "next"}) server.call(delete_pod(name));
    executor.advance(Duration(60'000));
    ASSERT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  }
}

TEST_F(BinderTest, TheReconcilerForgetsDeletedPods) {
  binder->start_reconciling();
  lose_track({.kind = Fault::Kind::kAnswer, .status = 500});
  bind(create(server, {}, "n1"));
  ASSERT_EQ(ledger.reader().counts().assumed, 1u);
  clear_faults();
  server.call(delete_pod("p"));
  executor.advance(2 * kReconcileInterval);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(BinderTest, TheReconcilerTouchesABoundedNumberOfPodsAtATime) {
  test::add_node(ledger, "big: 0[100/80000]");
  std::size_t open = 0, most = 0, touches = 0;
  lose_track({.kind = Fault::Kind::kAnswer, .status = 500});
  for (int i = 0; i < 60; ++i) {
    bind(create(server, {.name = "p" + std::to_string(i), .requests = {"1/256"}}, "big"));
  }
  ASSERT_EQ(ledger.reader().counts().assumed, 60u);
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    EXPECT_TRUE(is_touch(request));
    ++touches;
    most = std::max(most, ++open);
    executor.after(Duration(100), [&] { --open; });
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(100)};
  });
  binder->start_reconciling();
  executor.advance(4 * kReconcileInterval);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(touches, 60u);
  EXPECT_LE(most, kReconciliationsInFlight);
}

TEST_F(BinderTest, AnAcceptedBindingThatTheWatchDoesNotShowIsReadAndNotTouched) {
  binder->start_reconciling();
  EXPECT_EQ(bind(create(server, {}, "n1")), "");
  record();
  executor.advance(kAcceptedReconcileAfter + kReconcileInterval);
  EXPECT_THAT(sent, ElementsAre("pod"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
  server.call(delete_pod("p"));
  executor.advance(kAcceptedReconcileAfter + kReconcileInterval);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

// etcd was restored to a state before the bindings: here the API server answers 201 to the one that
// is not there, or shows a bound pod as unbound later.
TEST_F(BinderTest, APodWhoseBindingIsGoneIsNotBoundAgainUntilATouchShowsIt) {
  for (const bool bound_before : {false, true}) {
    SCOPED_TRACE(bound_before);
    const BindingArgs args = create(server, {}, "n1");
    const std::string unbound = server.call(kube::get_pod(args.pod)).body;
    if (bound_before) {
      const Annotations cards = {{options.contract.assumed, "true"},
                                 {options.contract.index_key("c0"), "0"}};
      ASSERT_TRUE(server.call(kube::bind({args.pod, args.uid, args.node, cards})).ok());
    } else {
      fail(is_bind, {.kind = Fault::Kind::kAnswer, .status = 201});
    }
    binder->start_reconciling();
    EXPECT_EQ(bind(args), "");
    server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
      if (is_touch(request)) return Fault{.kind = Fault::Kind::kRefuse};
      if (!test::is_get(request)) return std::nullopt;
      return Fault{.kind = Fault::Kind::kAnswer, .status = 200, .body = unbound};
    });
    executor.advance(kAcceptedReconcileAfter + 3 * kReconcileInterval);
    EXPECT_THAT(bind(args), HasSubstr("the outcome of an earlier binding is not known yet"));
    EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
    clear_faults();
    executor.advance(kTouchBackoffMax + kReconcileInterval);
    EXPECT_EQ(bind(args), "");
    EXPECT_EQ(used_text(ledger, "n1"), "0=30/1024 1=0/0");
    server.call(delete_pod("p"));
    executor.advance(kAcceptedReconcileAfter + kReconcileInterval);
    EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
    make_binder();
  }
}

}  // namespace
}  // namespace mgpu::extender
