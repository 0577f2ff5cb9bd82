// mgpu-parts: measures the steps of the verbs separately, with Google Benchmark. Each node has 8
// cards and 8 pods.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/parts/cluster_objects.h"
#include "bench/parts/requests.h"
#include "common/base/check.h"
#include "common/kube/objects/object_json.h"
#include "extender/ledger/consumers.h"
#include "extender/ledger/ledger.h"
#include "extender/placement/explain.h"
#include "extender/placement/limits.h"
#include "extender/pricing/price_snapshot.h"
#include "extender/pricing/refinement.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace {

using namespace mgpu;
using bench::PodKind;
using bench::Requests;
using Kind = kube::WatchEvent::Kind;

extender::VerbOptions options() {
  extender::VerbOptions options;
  options.contract = *Contract::for_domain(kDefaultResourceDomain);
  options.policy = *extender::find_policy(extender::kDefaultPolicy);
  return options;
}

// A ledger with the cluster of cluster_objects.h.
struct World {
  explicit World(std::size_t count) : nodes(count), pods(count * bench::kPodsPerNode) {
    for (std::size_t i = 0; i < nodes; ++i)
      node_events.on_event({Kind::kApply, bench::node_object(i)});
    for (std::size_t i = 0; i < pods; ++i)
      pod_events.on_event({Kind::kApply, bench::pod_object(i)});
  }

  // Returns the world of this size, which is kept while the program runs.
  static World& of(std::int64_t nodes) {
    static std::unique_ptr<World> world;
    const auto wanted = static_cast<std::size_t>(nodes);
    if (!world || world->nodes != wanted) world = std::make_unique<World>(wanted);
    return *world;
  }

  const std::size_t nodes;
  const std::size_t pods;
  const extender::VerbOptions options = ::options();
  extender::Ledger ledger;
  extender::DisruptionBudgets budgets;
  extender::CurrentPrices prices;
  const extender::VerbContext context{options, ledger, budgets, prices};
  kube::ObjectEvents<extender::NodeFacts> node_events{
      extender::node_consumer(ledger, options.contract, [](const std::string&) {})};
  kube::ObjectEvents<extender::PodFacts> pod_events{
      extender::pod_consumer(ledger, options.contract, extender::PodEvents())};
};

PodKind kind_of(const benchmark::State& state) {
  return state.range(1) == 1 ? PodKind::kOneContainer : PodKind::kTwoContainers;
}

std::vector<extender::ExtenderArgs> args_of(Requests& requests, std::size_t count) {
  std::vector<extender::ExtenderArgs> all;
  for (std::size_t i = 0; i < count; ++i) {
    auto args = extender::ExtenderArgs::parse(std::string(requests.next()));
    MGPU_CHECK(args.has_value(), "a recorded request can be parsed");
    all.push_back(std::move(*args));
  }
  return all;
}

void parse_request(benchmark::State& state) {
  Requests requests(static_cast<std::size_t>(state.range(0)), PodKind::kOneContainer);
  for (auto _ : state)
    benchmark::DoNotOptimize(extender::ExtenderArgs::parse(std::string(requests.next())));
}

template <auto kVerb>
void verb(benchmark::State& state) {
  World& world = World::of(state.range(0));
  Requests requests(world.nodes, kind_of(state));
  const auto args = args_of(requests, 8);
  std::size_t next = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(kVerb(args[next++ % args.size()], world.context, Instant()));
}

// Prices of halves of cards and of whole cards on nodes like this one.
extender::PriceSnapshot prices_for(const extender::Node& node) {
  std::vector<extender::CountedClass> counted;
  for (const Percent core : {Percent(50), kWholeCard}) {
    GpuRequest request;
    request.containers = {{.name = "c", .per_card = {core, MiB(1'000)}}};
    for (auto& one : extender::classes_of(request, {extender::MilliCpu(4'000), MiB(8'000)}))
      counted.push_back({std::move(one), 1});
  }
  extender::KindCount kinds;
  kinds.add(node);
  extender::PriceSnapshot snapshot;
  snapshot.version = 1;
  snapshot.workload = extender::workload_of(std::move(counted), 1.0, 1'000);
  const std::vector<extender::NodeRoom> rooms = {extender::room_after(node, kinds.kinds(), {}, {})};
  snapshot.prices =
      extender::refine(snapshot.workload, kinds.kinds(), rooms, {}, extender::kQuickStart);
  snapshot.tables = extender::PriceTables(snapshot.workload, kinds.kinds(), snapshot.prices);
  return snapshot;
}

// The scores of a request that no pod had before, on empty nodes: all of one shape, or each of its
// own, because their CPU differs.
void first_score(benchmark::State& state) {
  extender::Ledger ledger;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    auto node =
        extender::node_facts_of(*kube::read_node(bench::node_object(0)), options().contract);
    node.name = NodeName(names.emplace_back(bench::node_name(static_cast<std::size_t>(i))));
    if (state.range(2) > 1) node.allocatable.cpu += extender::MilliCpu(i);
    ledger.apply_node(std::move(node));
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const extender::PriceSnapshot prices = prices_for(ledger.reader().node(NodeName(names[0]))->node);
  std::int64_t requests = 0;
  for (auto _ : state) {
    GpuRequest request;
    request.containers.resize(static_cast<std::size_t>(state.range(1)));
    for (ContainerRequest& container : request.containers)
      container.per_card = {Percent(10), MiB(1'000 + ++requests)};
    benchmark::DoNotOptimize(ledger.decisions().score(
        views, {request, {extender::MilliCpu(1'000), MiB(1'000)}, 0, &prices}, options().policy,
        Instant()));
  }
}

void write_filter(benchmark::State& state) {
  World& world = World::of(state.range(0));
  Requests requests(world.nodes, PodKind::kOneContainer);
  const auto args = args_of(requests, 1);
  const auto reply = extender::filter(args[0], world.context, Instant());
  for (auto _ : state) benchmark::DoNotOptimize(extender::write_filter_reply(reply, args[0]));
}

void write_prioritize(benchmark::State& state) {
  World& world = World::of(state.range(0));
  Requests requests(world.nodes, PodKind::kOneContainer);
  const auto args = args_of(requests, 1);
  const auto scores = extender::prioritize(args[0], world.context, Instant());
  for (auto _ : state) benchmark::DoNotOptimize(extender::write_prioritize_reply(scores, args[0]));
}

std::string watch_line(std::string_view type, std::string_view object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object);
}

// Reads and applies a line of the watch. Pods are deleted and added again.
void watch_event(benchmark::State& state) {
  World& world = World::of(state.range(0));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < 512; ++i) {
    const std::string pod = bench::pod_object(i * (world.pods / 512));
    lines.push_back(watch_line("DELETED", pod));
    lines.push_back(watch_line("ADDED", pod));
  }
  std::size_t next = 0;
  for (auto _ : state) {
    auto line = kube::read_watch_line(lines[next++ % lines.size()]);
    const bool gone = line->kind == kube::WatchLine::Kind::kDeleted;
    world.pod_events.on_event({gone ? Kind::kDelete : Kind::kApply, std::move(line->object)});
  }
}

void read_pod(benchmark::State& state) {
  const std::string pod = bench::pod_object(1);
  for (auto _ : state) benchmark::DoNotOptimize(kube::read_pod(pod));
}

void read_node(benchmark::State& state) {
  const std::string node = bench::node_object(1);
  for (auto _ : state) benchmark::DoNotOptimize(kube::read_node(node));
}

// Measures a decision on one node: node 0 is full, on node 1 half of each card is used, node 3 is
// empty.
template <class Decide>
void on_one_node(benchmark::State& state, Decide decide) {
  World& world = World::of(1'000);
  Requests requests(4, kind_of(state));
  const auto args = args_of(requests, 1);
  const auto pod = extender::read_pod_request(args[0].pod(), world.options);
  const auto node = world.ledger.reader().node(
      NodeName(bench::node_name(static_cast<std::size_t>(state.range(0)))));
  const extender::PlacementContext context = pod->context(nullptr);
  for (auto _ : state) decide(node->node, context, *pod->policy.card);
}

void place(benchmark::State& state) {
  on_one_node(state, [](const auto& node, const auto& context, const auto& policy) {
    extender::SearchBudget budget{extender::kPlacementStepsMax};
    benchmark::DoNotOptimize(extender::place(node, context, policy, budget));
  });
}

void explain(benchmark::State& state) {
  on_one_node(state, [](const auto& node, const auto& context, const auto& policy) {
    extender::SearchBudget budget{extender::kPlacementStepsMax};
    benchmark::DoNotOptimize(extender::explain(node, context, policy, budget));
  });
}

const std::vector<std::int64_t> kSizes = {1'000, 5'000, 15'000};

}  // namespace

BENCHMARK(parse_request)->ArgName("nodes")->ArgsProduct({kSizes})->Unit(benchmark::kMicrosecond);
BENCHMARK(verb<extender::filter>)
    ->Name("filter_verb")
    ->ArgNames({"nodes", "containers"})
    ->ArgsProduct({kSizes, {1, 2}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(first_score)
    ->ArgNames({"nodes", "containers", "shapes"})
    ->ArgsProduct({{500, 5'000}, {1, 2, 4}, {1, 5'000}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(verb<extender::prioritize>)
    ->Name("prioritize_verb")
    ->ArgNames({"nodes", "containers"})
    ->ArgsProduct({kSizes, {1, 2}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(write_filter)->ArgName("nodes")->ArgsProduct({kSizes})->Unit(benchmark::kMicrosecond);
BENCHMARK(write_prioritize)->ArgName("nodes")->ArgsProduct({kSizes})->Unit(benchmark::kMicrosecond);
BENCHMARK(watch_event)->ArgName("nodes")->Arg(5'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(read_pod)->Unit(benchmark::kMicrosecond);
BENCHMARK(read_node)->Unit(benchmark::kMicrosecond);
BENCHMARK(place)
    ->ArgNames({"node", "containers"})
    ->ArgsProduct({{0, 1, 3}, {1, 2}})
    ->Unit(benchmark::kNanosecond);
BENCHMARK(explain)
    ->ArgNames({"node", "containers"})
    ->ArgsProduct({{0, 1, 3}, {1, 2}})
    ->Unit(benchmark::kNanosecond);

BENCHMARK_MAIN();
