// Metrics of how the cluster is used as a whole (pricing/cluster_use.h), and of pending pods.
//
//   mgpu_extender_compute_cards{state}             compute in cards: "allocated", "free" or
//                                                  "unusable"
//   mgpu_extender_free_cards                       cards of which nothing is allocated
//   mgpu_extender_free_compute_on_used_cards       free compute on the other ones, in cards
//   mgpu_extender_gpu_nodes                        nodes with cards
//   mgpu_extender_partly_used_nodes                nodes with used cards and with others
//   mgpu_extender_gpu_allocation_ratio             GAR of Kant
//   mgpu_extender_memory_allocation_ratio
//   mgpu_extender_gpu_node_fragmentation_ratio     GFR of Kant
//   mgpu_extender_fragmentation_ratio{of}          FGD's fragments, of "all" or "free" compute
//   mgpu_extender_rejected_pods{reason}            see placement/reason.h
//
// A ratio that is not defined, such as that of no cards, has no series. The nodes are read at a
// scrape, and at most once in kUseInterval; what is computed about them takes at most kUseStepsMax
// steps (placement/limits.h), and is computed without the ledger's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/executor.h"
#include "common/base/metrics.h"
#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/pricing/cluster_use.h"
#include "extender/requeue/rejected_pods.h"

namespace mgpu::extender {

inline constexpr std::chrono::milliseconds kUseInterval{5'000};
// Some 0.2 s on a thread of the service server. 5,000 nodes with eight cards and 100 classes of
// pods take 380,000 steps. Nodes beyond it do not count.
inline constexpr std::uint64_t kUseStepsMax = 10'000'000;

// The use of all nodes; `steps` are those of the whole call.
ClusterUse read_cluster_use(const LedgerReader& ledger, const TargetWorkload* target,
                            std::uint64_t steps = kUseStepsMax);

// Called by the metrics, one call at a time.
class UseMetrics {
 public:
  // All outlive the metrics' last collection.
  UseMetrics(Metrics& metrics, LedgerReader& ledger, RejectedPods& rejected,
             const CurrentPrices& prices, const Executor& clock);

 private:
  void collect();

  Metrics& metrics_;
  LedgerReader& ledger_;
  RejectedPods& rejected_;
  const CurrentPrices& prices_;
  const Executor& clock_;
  std::optional<Instant> read_;  // when the nodes were read
};

}  // namespace mgpu::extender
