// Many concurrent binds: no share is given twice, whatever is lost, late, refused or restarted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "common/base/asio_executor.h"
#include "test/extender/bind/binder_world.h"
#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using test::is_bind;

constexpr int kNodes = 4;

void add_nodes(Ledger& ledger) {
  for (int n = 0; n < kNodes; ++n) {
    test::add_node(ledger, "n" + std::to_string(n) + ": 0[100/32000] 1[100/32000]");
  }
}

// One run of the extender: its start sequence, then its ledger, fed by a watch, and its binder.
struct Extender {
  Extender(kube::MemoryApiServer& server, const VerbOptions& options, std::size_t in_flight)
      : context{options, ledger, budgets, prices},
        client(server),
        process(client, options.contract),
        binder(client, context, process.guards(), in_flight, {}),
        start(server, client, options.contract, process.guards(), ledger,
              {.on_done = [&] { watch.emplace(server, ledger, options.contract); },
               .on_problem = [](const std::string&) {},
               .on_progress = [](std::size_t, std::size_t) {}}) {
    add_nodes(ledger);
    binder.start_reconciling();
    start.start();
  }
  bool ready() const { return start.done() && watch->synced(); }

  Ledger ledger;
  DisruptionBudgets budgets;
  CurrentPrices prices;
  const VerbContext context;
  kube::Client client;
  test::Process process;
  Binder binder;
  std::optional<test::PodWatch> watch;
  StartSequence start;
};

// An answer to a binding that is served up to half a minute later.
Fault served_later(int which, Duration delay) {
  constexpr const char* kEtcd =
      R"({"kind":"Status","code":409,"reason":"Conflict","message":)"
      R"("Operation cannot be fulfilled on pods/binding \"p\": etcdserver: leader changed"})";
  if (which == 0) return {.kind = Fault::Kind::kServeLater, .status = 0, .delay = delay};
  if (which == 1) {
    return {.kind = Fault::Kind::kServeLater, .status = 409, .body = kEtcd, .delay = delay};
  }
  return {.kind = Fault::Kind::kServeLater, .status = 503, .body = "", .delay = delay};
}

struct Cluster {
  explicit Cluster(std::uint64_t seed) : random(seed) {}

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); }

  void start_extender() {
    extender.emplace(server, options, 32);
    executor.advance(Duration(50));
    ASSERT_TRUE(extender->ready());
  }

  void create_pods(int count) {
    const std::vector<std::string> requests = {"10/1024", "35/4096", "50/2048", "100/8000", "200"};
    for (int i = 0; i < count; ++i) {
      const std::string node = "n" + std::to_string(below(kNodes));
      const std::string request =
          requests[static_cast<std::size_t>(below(static_cast<int>(requests.size())))];
      pods.push_back(
          test::create(server, {.name = "p" + std::to_string(i), .requests = {request}}, node));
    }
  }

  std::optional<Fault> any_fault(const kube::Request& request) {
    if (request.target.find("watch=") != std::string::npos) return std::nullopt;
    if (is_bind(request) && below(4) == 0) {
      return served_later(below(3), Duration(below(30'000)));
    }
    switch (below(12)) {
      case 0:
        return Fault{.kind = Fault::Kind::kLoseAnswer};
      case 1:
        return Fault{.kind = Fault::Kind::kRefuse};
      case 2:
        return Fault{.kind = Fault::Kind::kAnswer, .status = below(2) ? 500 : 429};
      case 3:
        return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(below(9'000))};
      default:
        return std::nullopt;
    }
  }

  void bind(const BindingArgs& args) {
    ++begun;
    extender->binder.bind(args, [this](const std::string&) { ++answered; });
  }

  mgpu::test::ManualExecutor executor;
  mgpu::test::FaultyApiServer server{executor, {}};
  VerbOptions options = test::options_of();
  std::mt19937_64 random;
  std::vector<BindingArgs> pods;
  int begun = 0;
  int answered = 0;
  std::optional<Extender> extender;
};

TEST(BinderRace, AThousandBindsOnEightCards) {
  Cluster world(1);
  world.start_extender();
  world.create_pods(1'000);
  for (const auto& pod : world.pods) world.bind(pod);
  world.executor.advance(Duration(100));
  EXPECT_EQ(world.answered, 1'000);
  EXPECT_LE(test::fullest_card(world.server), 100);
  EXPECT_EQ(world.extender->ledger.reader().counts().overfull, 0u);
  EXPECT_EQ(world.extender->ledger.reader().counts().assumed, 0u);
  EXPECT_GT(world.extender->ledger.reader().counts().bound, 8u);
}

// Faults, retries on other nodes, deletions and restarts, mixed by the seed.
void run_with_faults(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Cluster world(seed);
  world.start_extender();
  world.create_pods(150);
  world.server.set_faults([&](const kube::Request& request) { return world.any_fault(request); });
  for (int step = 0; step < 500; ++step) {
    BindingArgs args = world.pods[static_cast<std::size_t>(world.below(150))];
    if (world.below(3) == 0) args.node = NodeName("n" + std::to_string(world.below(kNodes)));
    world.bind(args);
    if (world.below(20) == 0) world.server.call(test::delete_pod(args.pod.name));
    world.executor.advance(Duration(world.below(200)));
    if (step % 10 == 0) {
      ASSERT_LE(test::fullest_card(world.server), 100) << "step " << step;
    }
    if (step != 250) continue;
    // What the earlier process has sent may still arrive.
    world.extender.reset();
    world.answered = world.begun;
    world.server.set_faults(nullptr);
    world.start_extender();
    world.server.set_faults([&](const kube::Request& request) { return world.any_fault(request); });
  }
  world.server.set_faults(nullptr);
  world.executor.advance(Duration(90'000));
  EXPECT_EQ(world.answered, world.begun);
  EXPECT_LE(test::fullest_card(world.server), 100);
  EXPECT_EQ(world.extender->ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(world.extender->ledger.reader().counts().overfull, 0u);
}

TEST(BinderRace, NoShareIsGivenTwiceAcrossFaultsAndARestart) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) run_with_faults(seed);
}

// The same on real threads, for the thread sanitizer: concurrent filters, binds and reads.
TEST(BinderRace, ConcurrentThreads) {
  constexpr int kThreads = 4;
  constexpr int kPodsEach = 60;
  AsioExecutor executor;
  kube::MemoryApiServer server(executor, {});
  const VerbOptions options = test::options_of();
  std::vector<std::vector<BindingArgs>> pods(kThreads);
  for (int i = 0; i < kThreads * kPodsEach; ++i) {
    auto& own = pods[static_cast<std::size_t>(i % kThreads)];
    own.push_back(test::create(server, {.name = "p" + std::to_string(i), .requests = {"20/2000"}},
                               "n" + std::to_string(i % kNodes)));
  }
  std::atomic<int> answered{0};
  {
    Extender extender(server, options, 8);
    while (!extender.start.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<std::thread> threads;
    for (const auto& batch : pods) {
      threads.emplace_back([&] {
        for (const BindingArgs& args : batch) {
          const ExtenderArgs seen =
              test::args_of({.name = args.pod.name, .requests = {"20/2000"}}, {args.node.str()});
          filter(seen, extender.context, executor.now());
          extender.binder.remember(test::pod_at(server, args.pod.name));
          extender.binder.bind(args, [&](const std::string&) { ++answered; });
          static_cast<void>(extender.binder.in_flight());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    while (answered < kThreads * kPodsEach) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  executor.stop();  // the server ends while nothing runs
  // 8 cards of 100 %, 20 % each.
  EXPECT_EQ(test::fullest_card(server), 100);
}

// The binder is destroyed while its executor runs its callbacks.
TEST(BinderRace, IsDestroyedDuringBinds) {
  for (int round = 0; round < 20; ++round) {
    AsioExecutor executor;
    kube::MemoryApiServer server(executor, {});
    const VerbOptions options = test::options_of();
    std::vector<BindingArgs> pods;
    for (int i = 0; i < 20; ++i) {
      pods.push_back(test::create(server,
                                  {.name = "p" + std::to_string(i), .requests = {"10/1000"}},
                                  "n" + std::to_string(i % kNodes)));
    }
    auto answers = std::make_unique<std::atomic<int>>(0);
    {
      Extender extender(server, options, 4);
      for (const auto& args : pods) {
        extender.binder.bind(args, [&counter = *answers](const std::string&) { ++counter; });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(round * 200));
    }
    answers.reset();  // a later answer is a use after free
    executor.stop();  // the server ends while nothing runs
  }
}

}  // namespace
}  // namespace mgpu::extender
