#include "extender/bind/start_sequence.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/kube/objects/object_protobuf.h"
#include "extender/ledger/limits.h"
#include "test/extender/bind/binder_world.h"
#include "test/support/cluster_text.h"
#include "test/support/faulty_api_server.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using mgpu::test::ManualExecutor;
using test::create;
using test::is_bind;
using test::is_dry_run;
using test::is_lease;
using test::is_touch;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool is_list(const kube::Request& request) {
  return request.target.find("fieldSelector=") != std::string::npos;
}

bool is_list_of_nodes(const kube::Request& request) {
  return request.target.starts_with("/api/v1/nodes?");
}

bool is_list_of_pods(const kube::Request& request) {
  return request.target.starts_with("/api/v1/pods?limit=1");
}

// The API server answers nothing about the pod.
bool is_of_a_pod(const kube::Request& request) {
  return request.target.find("/pods/p") != std::string::npos && !is_dry_run(request);
}

bool is_touch_of_p(const kube::Request& request) {
  return is_touch(request) && request.target.find("/pods/p/") != std::string::npos;
}

class StartSequenceTest : public testing::Test {
 protected:
  void start() {
    sequence.emplace(
        server, client, options.contract, process.guards(), ledger,
        StartSequence::Events{
            .on_done =
                [this] {
                  ++done;
                  done_before_event = sequence->done();
                },
            .on_problem = [this](const std::string& why) { problems.push_back(why); },
            .on_progress = [this](std::size_t touched,
                                  std::size_t all) { progress.emplace_back(touched, all); }});
    sequence->start();
    executor.advance(Duration(1));
  }
  std::string version_of(const std::string& pod) {
    return test::pod_at(server, pod).metadata.resource_version;
  }
  // A node with one card.
  bool fits(const char* uid, const char* share) {
    return !ledger.decisions()
                .why_not(std::vector<std::string_view>{"n1"}, mgpu::test::request_of(share),
                         executor.now(), {PodUid(uid), 0})
                .front();
  }
  // A policy refuses to change the pods whose names begin so.
  void freeze(const std::string& name) {
    server.set_faults([name](const kube::Request& request) -> std::optional<Fault> {
      const bool frozen = request.target.find("/pods/" + name) != std::string::npos;
      if (!is_touch(request) || !frozen) return std::nullopt;
      return Fault{.kind = Fault::Kind::kAnswer, .status = 403};
    });
  }
  void fail(bool (*which)(const kube::Request&), Fault fault) {
    server.set_faults([which, fault](const kube::Request& request) {
      return which(request) ? std::optional(fault) : std::nullopt;
    });
  }

  ManualExecutor executor;
  mgpu::test::FaultyApiServer server{executor, {}};
  kube::Client client{server};
  VerbOptions options = test::options_of();
  test::Process process{client, options.contract};
  Ledger ledger;
  std::optional<StartSequence> sequence;
  int done = 0;
  bool done_before_event = true;
  std::vector<std::string> problems;
  std::vector<std::pair<std::size_t, std::size_t>> progress;
};

TEST_F(StartSequenceTest, TouchesThePendingPodsThatNameCardsAndNoOthers) {
  create(server, {.name = "gpu"}, "n1");
  create(server, {.name = "zero", .requests = {"0"}}, "n1");
  create(server, {.name = "other", .requests = {""}}, "n1");
  const BindingArgs bound = create(server, {.name = "bound"}, "n1");
  server.call(kube::bind({bound.pod, bound.uid, bound.node, {}}));
  std::map<std::string, std::string> before;
  for (const char* pod : {"gpu", "zero", "other", "bound"}) before[pod] = version_of(pod);
  start();
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(sequence->done());
  EXPECT_EQ(sequence->waiting_for(), "");
  EXPECT_NE(version_of("gpu"), before["gpu"]);
  EXPECT_NE(version_of("zero"), before["zero"]);
  EXPECT_EQ(version_of("other"), before["other"]);
  EXPECT_EQ(version_of("bound"), before["bound"]);
  EXPECT_EQ(progress.back(), std::pair(std::size_t{2}, std::size_t{2}));
  EXPECT_TRUE(process.preconditions.enforced());
}

// A late binding of it fails too, also when the gate is removed, since that changes the pod.
TEST_F(StartSequenceTest, AGatedPodIsNotTouched) {
  create(server, {.name = "pending"}, "n1");
  const BindingArgs gated =
      create(server, {.name = "gated", .spec = R"("schedulingGates":[{"name":"a/b"}],)"}, "n1");
  const std::string gated_version = version_of("gated");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(progress.back().second, 1u);
  EXPECT_EQ(version_of("gated"), gated_version);
  kube::Request no_gate;
  no_gate.method = kube::Method::kPatch;
  no_gate.target = "/api/v1/namespaces/d/pods/gated";
  no_gate.body = R"({"spec":{"schedulingGates":null}})";
  no_gate.content_type = "application/merge-patch+json";
  const auto late = [&] {
    return server.call(kube::bind({gated.pod, gated.uid, gated.node, {}, gated_version})).status;
  };
  EXPECT_NE(late(), 201);
  ASSERT_EQ(server.call(no_gate).status, 200);
  EXPECT_EQ(late(), 409);
}

TEST_F(StartSequenceTest, TakesTheLeaseBeforeItListsAndListsBeforeItTouches) {
  create(server, {}, "n1");
  std::vector<std::string> order;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    const bool watch = request.target.find("watch=") != std::string::npos;
    if (is_lease(request) && request.method != kube::Method::kGet) order.emplace_back("take");
    if (is_list(request) && !watch) order.emplace_back("list");
    if (is_touch(request)) order.emplace_back("touch");
    return std::nullopt;
  });
  start();
  EXPECT_THAT(order, ElementsAre("take", "list", "touch"));
}

// Other threads ask for done(), and decide. The handler of the event begins the list of pods that
// they have to wait for.
TEST_F(StartSequenceTest, IsNotDoneBeforeTheEventWasHandled) {
  create(server, {}, "n1");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(done_before_event);
  EXPECT_TRUE(sequence->done());
}

TEST_F(StartSequenceTest, AnEmptyClusterIsDoneWithoutACheck) {
  start();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(process.preconditions.enforced());
}

// The binding waits somewhere, longer than its process lives.
TEST_F(StartSequenceTest, ABindingOfAnEarlierProcessIsRefusedWheneverItArrives) {
  const BindingArgs args = create(server, {.requests = {"200"}}, "n1");
  const std::string version = version_of("p");
  test::Process earlier(client, options.contract);
  earlier.lease.take([](const kube::ApiResult<void>&) {});
  executor.run_ready();
  start();
  ASSERT_EQ(done, 1);
  const kube::Response late = server.call(kube::bind({args.pod, args.uid, args.node, {}, version}));
  EXPECT_EQ(late.status, 409) << late.body;
  EXPECT_EQ(test::pod_at(server, "p").node_name, "");
  std::optional<bool> held;
  earlier.lease.confirm([&](const kube::ApiResult<void>& confirmed) { held = bool(confirmed); });
  executor.run_ready();
  EXPECT_EQ(held, false);
}

TEST_F(StartSequenceTest, EachStepIsTriedAgainUntilItSucceeds) {
  struct Step {
    bool (*which)(const kube::Request&);
    const char* waiting_for;
  };
  const Step steps[] = {
      {is_list_of_nodes, "check of preconditions"},  {is_list_of_pods, "check of preconditions"},
      {is_lease, "lease kube-system/mgpu-extender"}, {is_list, "pending pods"},
      {is_of_a_pod, "pending pods: 0 of 1 touched"},
  };
  create(server, {}, "n1");
  for (const Step& c : steps) {
    done = 0;
    fail(c.which, {.kind = Fault::Kind::kAnswer, .status = 403});
    start();
    executor.advance(Duration(60'000));
    EXPECT_EQ(done, 0) << c.waiting_for;
    EXPECT_EQ(sequence->waiting_for(), c.waiting_for);
    ASSERT_FALSE(problems.empty());
    EXPECT_THAT(problems.back(), HasSubstr("HTTP 403"));
    // The backoff does not exceed its limit.
    const std::size_t before = problems.size();
    executor.advance(10 * kTouchBackoffMax);
    EXPECT_LE(problems.size(), before + 21) << c.waiting_for;
    server.set_faults(nullptr);
    executor.advance(kTouchBackoffMax);
    EXPECT_EQ(done, 1) << c.waiting_for;
    EXPECT_EQ(sequence->waiting_for(), "");
  }
}

TEST_F(StartSequenceTest, AServerThatIgnoresVersionsOfBindingsIsNotUsed) {
  const BindingArgs args = create(server, {}, "n1");
  const Fault faults[] = {
      {.status = 201, .body = "{}"},
      {.status = 409,
       .body = R"({"kind":"Status","code":409,"message":"pod p is already assigned to node"})"}};
  for (const Fault& fault : faults) {
    fail(is_dry_run, fault);
    start();
    EXPECT_EQ(sequence->waiting_for(), "check of preconditions");
    executor.advance(Duration(60'000));
    EXPECT_EQ(done, 0);
    EXPECT_TRUE(process.preconditions.ignored());
  }
}

// As in a namespace that is being deleted: admission refuses bindings of its pods.
TEST_F(StartSequenceTest, APodThatGivesNoClearAnswerLeavesTheCheckToTheNext) {
  kube::Request node;
  node.method = kube::Method::kPost;
  node.target = "/api/v1/nodes";
  node.body = mgpu::test::node_json("n1");
  node.content_type = "application/json";
  ASSERT_EQ(server.call(node).status, 201);
  for (const char* pod : {"a", "b", "c"}) create(server, {.name = pod}, "n1");
  std::vector<std::string> asked;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_dry_run(request)) return std::nullopt;
    const auto binding = kube::read_binding_protobuf(request.body);
    asked.push_back(request.target.substr(0, request.target.find("/binding")) + " to " +
                    (binding ? binding->node.str() : ""));
    if (request.target.find("/pods/c/") != std::string::npos) return std::nullopt;
    return Fault{.kind = Fault::Kind::kAnswer, .status = asked.size() == 1 ? 403 : 500};
  });
  start();
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(process.preconditions.enforced());
  EXPECT_THAT(asked,
              ElementsAre("/api/v1/namespaces/d/pods/a to n1", "/api/v1/namespaces/d/pods/b to n1",
                          "/api/v1/namespaces/d/pods/c to n1"));
}

// The first bind checks then.
TEST_F(StartSequenceTest, ABoundedNumberOfPodsIsAskedAbout) {
  for (int i = 0; i < 2 * kStartChecksMax; ++i)
    create(server, {.name = fmt::format("p{:02}", i)}, "n1");
  int asked = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_dry_run(request)) return std::nullopt;
    ++asked;
    return Fault{.kind = Fault::Kind::kAnswer, .status = 403};
  });
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(asked, kStartChecksMax);
  EXPECT_FALSE(process.preconditions.enforced());
  EXPECT_FALSE(process.preconditions.ignored());
}

TEST_F(StartSequenceTest, PodsThatAreDeletedMeanwhileAreDone) {
  for (const char* pod : {"a", "b"}) create(server, {.name = pod}, "n1");
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (is_touch(request)) server.call(test::delete_pod("b"));
    return std::nullopt;
  });
  start();
  EXPECT_EQ(done, 1);
  EXPECT_THAT(process.touches, testing::Contains(TouchResult::kGone));
}

// A tenant may change a large pod so often that no touch of it succeeds.
TEST_F(StartSequenceTest, APodThatWasChangedSinceTheListIsDone) {
  create(server, {}, "n1");
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_touch(request)) return std::nullopt;
    server.call(request);
    return Fault{.kind = Fault::Kind::kAnswer, .status = 504};
  });
  start();
  executor.advance(Duration(60'000));
  EXPECT_EQ(done, 1);
  EXPECT_THAT(process.touches, ElementsAre(TouchResult::kFailed));
}

TEST_F(StartSequenceTest, APodThatCannotBeChangedHoldsUpNobody) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  std::string uid;
  for (int i = 0; i < 40; ++i) {
    const BindingArgs made = create(
        server, {.name = "p" + std::to_string(i), .requests = {i == 7 ? "30/300" : "1/300"}}, "n1");
    if (i == 7) uid = made.uid.str();
  }
  freeze("p7/");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->waiting_for(), "");
  EXPECT_EQ(sequence->unsettled(), 1u);
  const auto pods = sequence->unsettled_pods(10);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(pods[0].pod, (PodRef{"d", "p7"}));
  EXPECT_EQ(pods[0].uid.str(), uid);
  EXPECT_THAT(pods[0].problem, HasSubstr("HTTP 403"));
  EXPECT_THAT(problems, ElementsAre(HasSubstr("1 of the pending pods cannot be changed")));
  // What a late binding of it may take is kept from others.
  EXPECT_TRUE(fits("other", "70/1"));
  EXPECT_FALSE(fits("other", "71/1"));
  EXPECT_TRUE(fits(uid.c_str(), "100/1"));
}

// A webhook that does not work gives 500, and one that refuses any code.
TEST_F(StartSequenceTest, AnUnclearAnswerAboutOnePodHoldsUpNobodyForLong) {
  create(server, {}, "n1");
  create(server, {.name = "q"}, "n1");
  for (const int status : {404, 409, 422, 500, 504}) {
    done = 0;
    fail(is_touch_of_p, {.status = status});
    start();
    executor.advance(Duration(10'000));
    EXPECT_EQ(done, 1) << status;
    EXPECT_EQ(sequence->unsettled(), 1u) << status;
    server.set_faults(nullptr);
    executor.advance(kTouchBackoffMax);
    EXPECT_EQ(sequence->unsettled(), 0u) << status;
  }
}

// Otherwise what it may take would depend on time.
TEST_F(StartSequenceTest, AnAnswerThatMayPassSetsNoPodAside) {
  create(server, {}, "n1");
  fail(is_touch_of_p, {.status = 500});
  start();
  executor.advance(kTouchBackoffFirst / 2);
  server.set_faults(nullptr);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(sequence->unsettled(), 0u);
  executor.advance(kTouchBackoffFirst);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), 0u);
}

// An API server with too many requests answers so, and a webhook or policy may.
TEST_F(StartSequenceTest, APodThatIsAnswered429ThoughItCanBeReadIsSetAside) {
  for (const char* name : {"a", "p", "z"}) create(server, {.name = name}, "n1");
  fail(is_touch_of_p, {.status = 429});
  start();
  executor.advance(kTouchBackoffFirst / 2);
  EXPECT_EQ(done, 0);
  executor.advance(10 * kTouchBackoffFirst);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), 1u);
}

TEST_F(StartSequenceTest, AnAPIServerThatAnswers429ToAllIsWaitedFor) {
  create(server, {}, "n1");
  fail(is_of_a_pod, {.status = 429});
  start();
  executor.advance(10 * kTouchBackoffMax);
  EXPECT_EQ(done, 0);
  server.set_faults(nullptr);
  executor.advance(kTouchBackoffMax);
  EXPECT_EQ(done, 1);
}

// As a webhook that hangs: each attempt takes until its timeout.
TEST_F(StartSequenceTest, TheFailuresOfANamespaceAreNotRepeatedForEachOfItsPods) {
  constexpr int kPods = 200;
  for (int pod = 0; pod < kPods; ++pod) create(server, {.name = "p" + std::to_string(pod)}, "n1");
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (!is_touch(request)) return std::nullopt;
    return Fault{.status = 500};
  });
  start();
  for (int step = 0; step < 40 && done == 0; ++step) executor.advance(kTouchBackoffFirst / 10);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), static_cast<std::size_t>(kPods));
  EXPECT_LE(process.touches.size(), 2 * kStartTouchesInFlight);
  server.set_faults(nullptr);
  executor.advance(100 * kTouchBackoffMax);
  EXPECT_EQ(sequence->unsettled(), 0u);
}

// No extender can have sent a binding of it.
TEST_F(StartSequenceTest, APodWithAnInvalidRequestIsNotWaitedFor) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  create(server, {.requests = {"99"}}, "n1");
  freeze("p");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), 0u);
  EXPECT_TRUE(fits("other", "100/1"));
}

TEST_F(StartSequenceTest, AChangeWithoutEffectSettlesNoPod) {
  create(server, {}, "n1");
  const std::string unchanged = server.call(kube::get_pod({"d", "p"})).body;
  fail(is_touch_of_p, {.status = 200, .body = unchanged});
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), 1u);
}

TEST_F(StartSequenceTest, APodThatCannotBeChangedIsTriedAgainUntilItIsSettled) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  create(server, {.requests = {"200"}}, "n1");
  freeze("p");
  start();
  const std::size_t before = process.touches.size();
  executor.advance(kLateBindingMax / 2);
  EXPECT_FALSE(fits("other", "1/1"));
  EXPECT_GT(process.touches.size(), before + 2);
  EXPECT_LT(process.touches.size(), before + 10);
  server.set_faults(nullptr);
  executor.advance(kTouchBackoffMax);
  EXPECT_EQ(sequence->unsettled(), 0u);
  EXPECT_TRUE(fits("other", "100/1"));
  EXPECT_EQ(done, 1);
  const std::size_t after = process.touches.size();
  executor.advance(10 * kTouchBackoffMax);
  EXPECT_EQ(process.touches.size(), after);
}

TEST_F(StartSequenceTest, APodThatSomebodyElseChangesIsSettled) {
  const BindingArgs args = create(server, {}, "n1");
  freeze("p");
  start();
  EXPECT_EQ(sequence->unsettled(), 1u);
  server.call(kube::bind({args.pod, args.uid, args.node, {}, version_of("p")}));
  executor.advance(kTouchBackoffMax);
  EXPECT_EQ(sequence->unsettled(), 0u);
}

// The watch of pods may be late: what the binding took is not free before it shows the pod.
TEST_F(StartSequenceTest, ALateBindingKeepsItsCardUntilTheWatchShowsIt) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  const BindingArgs args = create(server, {.requests = {"60/300"}}, "n1");
  freeze("p");
  start();
  EXPECT_FALSE(fits("other", "60/1"));
  server.call(kube::bind({args.pod, args.uid, args.node, {}, version_of("p")}));
  executor.advance(kTouchBackoffMax);
  EXPECT_FALSE(fits("other", "60/1"));
}

// Otherwise it would cost the others its share for ever.
TEST_F(StartSequenceTest, APodThatCannotBeChangedIsCountedForABoundedTime) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  create(server, {.requests = {"200"}}, "n1");
  freeze("p");
  start();
  executor.advance(kLateBindingMax - Duration(100));
  EXPECT_FALSE(fits("other", "1/1"));
  executor.advance(Duration(100));
  EXPECT_TRUE(fits("other", "100/1"));
  EXPECT_EQ(sequence->unsettled(), 1u);
}

// Other pods would take the cards that an earlier process has answered for the member.
TEST_F(StartSequenceTest, CardsAreKeptForTheRestOfAGroupThatIsBoundInPart) {
  ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000]"));
  create(server, {.requests = {"60/300"}, .spec = R"("schedulingGroup":{"podGroupName":"g"},)"},
         "n1");
  start();
  EXPECT_TRUE(fits("other", "60/1")) << "no member is bound";
  Claim bound = mgpu::test::bound_claim("bound", "n1", "10/10", "0");
  bound.group = "d/g";
  ledger.replace_pods({bound});
  EXPECT_FALSE(fits("other", "60/1"));
  executor.advance(kGroupRetryLife);
  EXPECT_TRUE(fits("other", "60/1"));
}

TEST_F(StartSequenceTest, ManyPodsThatCannotBeChangedCostFewRequests) {
  constexpr std::size_t kPods = 10 * kStartTouchesInFlight;
  for (std::size_t i = 0; i < kPods; ++i) create(server, {.name = fmt::format("p{}", i)}, "n1");
  freeze("p");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sequence->unsettled(), kPods);
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_EQ(sequence->unsettled_pods(5).size(), 5u);
  executor.advance(Duration(60'000));
  EXPECT_LE(process.touches.size(), kPods + 7 * kStartTouchesInFlight);
  // They are touched quickly once that is possible.
  server.set_faults(nullptr);
  executor.advance(kTouchBackoffMax + 10 * kTouchBackoffFirst);
  EXPECT_EQ(sequence->unsettled(), 0u);
}

TEST_F(StartSequenceTest, APodWithoutRoomForTheConditionIsDone) {
  test::create_full(server, "n1");
  start();
  EXPECT_EQ(done, 1);
  EXPECT_THAT(process.touches, ElementsAre(TouchResult::kFull));
}

// Otherwise a pod that the earlier process could touch, and bind, could be too full for this one.
TEST_F(StartSequenceTest, ATouchedPodIsAsLongAfterTheNextTouch) {
  const BindingArgs args = create(server, {}, "n1");
  start();
  const auto size = [&] {
    auto pod = nlohmann::json::parse(server.call(kube::get_pod(args.pod)).body);
    pod["metadata"].erase("resourceVersion");
    return pod.dump().size();
  };
  const std::size_t before = size();
  for (int i = 0; i < 12; ++i) {
    test::Process next(client, options.contract);
    for (int touch = 0; touch < 20; ++touch) {
      next.touch.settle(args.pod, "", kBindTimeout, [](const auto&) {});
      executor.run_ready();
    }
    EXPECT_EQ(next.touches, std::vector(20, TouchResult::kUnbound));
    EXPECT_EQ(size(), before);
  }
}

TEST_F(StartSequenceTest, TouchesABoundedNumberOfPodsAtATime) {
  std::size_t open = 0, most = 0;
  for (int i = 0; i < 200; ++i) create(server, {.name = "p" + std::to_string(i)}, "n1");
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (!is_touch(request)) return std::nullopt;
    most = std::max(most, ++open);
    executor.after(Duration(10), [&] { --open; });
    return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(10)};
  });
  start();
  executor.advance(Duration(10));
  EXPECT_THAT(sequence->waiting_for(), testing::StartsWith("pending pods: "));
  EXPECT_THAT(sequence->waiting_for(), HasSubstr(" of 200 touched"));
  executor.advance(Duration(1'000));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(most, kStartTouchesInFlight);
  EXPECT_EQ(progress.size(), 10u);
}

TEST_F(StartSequenceTest, RunsNoCallbackAfterItsEnd) {
  create(server, {}, "n1");
  sequence.emplace(server, client, options.contract, process.guards(), ledger,
                   StartSequence::Events{[this] { ++done; }, {}, {}});
  sequence->start();
  sequence.reset();
  executor.advance(Duration(60'000));
  EXPECT_EQ(done, 0);
  EXPECT_THAT(process.touches, IsEmpty());
}

}  // namespace
}  // namespace mgpu::extender
