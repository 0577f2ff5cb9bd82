#include "extender/use_metrics.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "extender/ledger/limits.h"

namespace mgpu::extender {

namespace {

// Copies of a few nodes, whose memory is used again: assigning a node to them rarely allocates.
class NodeCopies {
 public:
  void add(const Node& node) { nodes_[count_++] = node; }
  std::span<const Node> nodes() const { return std::span(nodes_).first(count_); }
  void clear() { count_ = 0; }

 private:
  std::array<Node, kNodeCopiesMax> nodes_;
  std::size_t count_ = 0;
};

// Without a value the family has no series.
MetricFamily ratio(const char* name, const char* help, std::optional<double> value) {
  auto family = gauges(name, help);
  if (value) family.metric.push_back(series({}, *value));
  return family;
}

double in_cards(std::int64_t core) {
  return static_cast<double>(core) / 100;
}

MetricFamily compute_family(const ClusterUse& use) {
  const double allocated = in_cards(use.core_allocated);
  const double mig = in_cards(use.core_free_mig);
  const double free = in_cards(use.core_free) - mig;
  const double unusable = in_cards(use.core) - allocated - free - mig;
  return gauges("mgpu_extender_compute_cards",
                "Compute of all cards, in cards, by state. free_mig is free on MIG devices; "
                "unusable is that of unhealthy and blocked cards that is not allocated.",
                {series({{"state", "allocated"}}, allocated), series({{"state", "free"}}, free),
                 series({{"state", "free_mig"}}, mig), series({{"state", "unusable"}}, unusable)});
}

MetricFamily fragmentation_family(const ClusterUse& use) {
  auto family = gauges("mgpu_extender_fragmentation_ratio",
                       "Free compute that the expected pods cannot use, as FGD measures it, as a "
                       "part of all compute or of the free compute.");
  const std::pair<const char*, std::optional<double>> parts[] = {
      {"all", use.fragmentation_amount()}, {"free", use.fragmentation_rate()}};
  for (const auto& [of, value] : parts)
    if (value) family.metric.push_back(series({{"of", of}}, *value));
  return family;
}

std::vector<MetricFamily> families_of(const ClusterUse& use) {
  return {
      compute_family(use),
      gauges("mgpu_extender_free_cards",
             "Healthy cards of which nothing is allocated, without MIG devices.",
             {series({}, static_cast<double>(use.cards_free))}),
      gauges(
          "mgpu_extender_free_compute_on_used_cards",
          "Free compute on cards of which something is allocated, in cards, without MIG devices.",
          {series({}, in_cards(use.core_free_in_parts))}),
      gauges("mgpu_extender_partly_used_nodes",
             "Nodes with cards of which something is allocated, and with others.",
             {series({}, static_cast<double>(use.nodes_partly_used))}),
      gauges("mgpu_extender_gpu_nodes", "Nodes with cards.",
             {series({}, static_cast<double>(use.nodes))}),
      ratio("mgpu_extender_gpu_allocation_ratio",
            "Allocated compute as a part of the compute of all cards (GAR).",
            use.gpu_allocation_ratio()),
      ratio("mgpu_extender_memory_allocation_ratio",
            "Allocated memory as a part of the memory of all cards.",
            use.memory_allocation_ratio()),
      ratio("mgpu_extender_gpu_node_fragmentation_ratio",
            "Nodes of whose compute some is allocated and some is free, as a part of the nodes "
            "with cards (GFR).",
            use.gpu_node_fragmentation_ratio()),
      fragmentation_family(use)};
}

MetricFamily rejected_family(const RejectedPods::Counts& counts) {
  auto family =
      gauges("mgpu_extender_rejected_pods",
             "Pods that filter rejected on all nodes at their last try, by what they wait for.");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::string reason(to_string(static_cast<Rejection>(i)));
    family.metric.push_back(series({{"reason", reason}}, static_cast<double>(counts[i])));
  }
  return family;
}

}  // namespace

ClusterUse read_cluster_use(const LedgerReader& ledger, const TargetWorkload* target,
                            std::uint64_t steps) {
  ClusterUse use;
  const auto copies = std::make_unique<NodeCopies>();
  const auto add_copies = [&] {
    for (const Node& node : copies->nodes()) {
      const std::size_t cards = node.cards.size();
      const std::uint64_t fragmentation =
          target == nullptr ? 0 : target->fragmentation_steps(cards);
      const std::uint64_t needed = 1 + cards * kCopySteps + fragmentation;
      steps -= std::min(steps, needed);
      if (steps > 0) use.add(node, target);
    }
    copies->clear();
    return steps > 0;
  };
  // It is called without the lock after every kNodeCopiesMax nodes.
  ledger.visit_in_steps([&](const Node& node) { copies->add(node); }, add_copies);
  add_copies();
  return use;
}

UseMetrics::UseMetrics(Metrics& metrics, LedgerReader& ledger, RejectedPods& rejected,
                       const CurrentPrices& prices, const Executor& clock)
    : metrics_(metrics), ledger_(ledger), rejected_(rejected), prices_(prices), clock_(clock) {
  metrics.on_collect([this] { collect(); });
}

void UseMetrics::collect() {
  const Instant now = clock_.now();
  metrics_.replace({rejected_family(rejected_.counts(now))});
  if (read_ && now - *read_ < kUseInterval) return;
  read_ = now;
  ledger_.read(now, [](const View&) {});  // removes expected placements that have ended
  const PriceSnapshotPtr snapshot = prices_.current();
  metrics_.replace(families_of(read_cluster_use(ledger_, snapshot ? &snapshot->target : nullptr)));
}

}  // namespace mgpu::extender
