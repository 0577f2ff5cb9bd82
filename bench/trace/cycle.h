// How one pod is scheduled, with the extender's own verbs in the order in which kube-scheduler
// calls them: select nodes with enough CPU, memory and cards in total, filter, prioritize if more
// than one node is left, take the node with the highest score, assume. Then the claim is confirmed,
// as the watch would do it. Where kube-scheduler selects only some of the nodes, and none of them
// fits, it is asked about the next ones until all nodes have been examined, as the extender makes
// it do.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/trace/arrivals.h"
#include "bench/trace/bookkeeping.h"
#include "bench/trace/node_sample.h"
#include "bench/trace/objects.h"
#include "bench/trace/price_source.h"
#include "extender/learning/current_prices.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::trace {

// The choice among nodes of equal score: kFirst takes the smallest name, as FGD's scheduler does;
// kRandom takes any, as kube-scheduler does. With kPod the extender chooses among equal nodes by
// pod, as it does by default in a cluster, and with the others by name.
enum class Ties : std::uint8_t { kFirst, kRandom, kPod };

// The ranking of nodes for non-GPU pods.
enum class NonGpuRanking : std::uint8_t {
  kTaints,    // kube-scheduler's default plugins, and the taint that mgpu-device-plugin writes
  kDefaults,  // kube-scheduler's default plugins
  kExtender,  // by the verb prioritize-non-gpu
};

// The simulated behaviour of kube-scheduler.
struct SchedulerRules {
  Ties ties = Ties::kFirst;
  NonGpuRanking non_gpu = NonGpuRanking::kTaints;
  Sampling sampling = Sampling::kKubeScheduler;
};

struct Outcome {
  std::optional<std::size_t> node;  // not set if the pod fits on no node
  Placement cards;
  std::chrono::nanoseconds took{0};  // filter, prioritize and assume
};

// A cluster, empty at first, and its ledger. Each run has its own. Not thread-safe.
class Cycle {
 public:
  // REQUIRES: `objects` outlives the cycle; `prices` is not null. Nodes are named "<4 digits>-<name
  // in the trace>"; the digits depend on the seed (node_numbers).
  Cycle(const Objects& objects, extender::PolicyChoice policy,
        std::shared_ptr<const extender::CurrentPrices> prices, SchedulerRules rules,
        std::uint64_t seed);

  // Schedules pod number `pod` of the trace under the unique name `uid`. `price_source` observes
  // the pod first. A placed pod is bound in the ledger afterwards.
  Outcome schedule(std::size_t pod, const std::string& uid, PriceSource& price_source);
  // Removes a pod that has terminated.
  void remove(std::size_t pod, const std::string& uid, std::size_t node, const Placement& cards);

  extender::Ledger& ledger() { return ledger_; }
  const Bookkeeping& bookkeeping() const { return bookkeeping_; }
  const NodeName& node_name(std::size_t node) const { return names_[node]; }
  Instant now() const { return now_; }

 private:
  std::string_view choose(const kube::Pod& pod, const extender::PodRequest& request,
                          std::size_t index);
  std::string_view choose_among(const kube::Pod& pod, const extender::PodRequest& request,
                                std::vector<std::string_view> names);
  std::string_view choose_clustered(const extender::PodRequest& request,
                                    const std::vector<std::string_view>& names);
  std::string_view choose_without_extender(const extender::NodeResources& wanted,
                                           const std::vector<std::string_view>& names);
  std::string_view highest(const std::vector<extender::HostScore>& scores);
  Placement assume(const extender::PodRequest& request, const extender::Claim& claim);
  void confirm(extender::Claim claim, const Placement& cards);

  const Objects& objects_;
  const extender::VerbOptions options_;
  SchedulerRules rules_;
  Draws tie_draws_;
  Bookkeeping bookkeeping_;
  extender::Ledger ledger_;
  extender::DisruptionBudgets budgets_;
  std::shared_ptr<const extender::CurrentPrices> prices_;
  const extender::VerbContext context_{options_, ledger_, budgets_, *prices_};
  NodeSampler sampler_;
  std::vector<NodeName> names_;                                 // by index in the trace
  std::vector<std::size_t> by_name_;                            // indices, sorted by name
  std::unordered_map<std::string_view, std::size_t> index_of_;  // by name
  Instant now_{};
};

}  // namespace mgpu::trace
