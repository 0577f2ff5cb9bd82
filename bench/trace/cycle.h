// One pod at a time through the product's own decision, as kube-scheduler would ask it: the nodes
// whose CPU and memory are enough, filter, prioritize where more than one is left, the node with
// the highest score, assume; and then what the watch would show.
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
#include "bench/trace/market_maker.h"
#include "bench/trace/objects.h"
#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::trace {

// Among nodes of equal score: kFirst takes the smallest name, as FGD's scheduler does; kRandom any,
// as kube-scheduler does.
enum class Ties : std::uint8_t { kFirst, kRandom };

// Who ranks nodes for pods without cards: the extender, as the second entry of the shipped
// configuration has it, or kube-scheduler by its defaults, as without that entry.
enum class Plain : std::uint8_t { kExtender, kDefaults };

// What kube-scheduler does by itself.
struct SchedulerRules {
  Ties ties = Ties::kFirst;
  Plain plain = Plain::kExtender;
};

struct Outcome {
  std::optional<std::size_t> node;  // none: it fits nowhere
  Placement cards;
  std::chrono::nanoseconds took{0};  // filter, prioritize and assume
};

// A cluster with its ledger, empty at first. One run's; not thread-safe.
class Cycle {
 public:
  // `objects` outlives it. Nodes are called "<4 digits>-<their name>", by the seed
  // (node_numbers).
  Cycle(const Objects& objects, extender::PolicyChoice policy,
        std::shared_ptr<const extender::CurrentPrices> price_snapshots, SchedulerRules rules,
        std::uint64_t seed);

  // `pod` is an index into the trace's; `uid` is this arrival's own. What the ledger holds
  // afterwards is confirmed. `market_maker` is shown the pod first.
  Outcome schedule(std::size_t pod, const std::string& uid, PriceMaker& market_maker);
  // The pod has ended.
  void remove(std::size_t pod, const std::string& uid, std::size_t node, const Placement& cards);

  extender::Ledger& ledger() { return ledger_; }
  const Bookkeeping& bookkeeping() const { return bookkeeping_; }
  const NodeName& node_name(std::size_t node) const { return names_[node]; }
  const extender::Settings& settings() const { return settings_; }
  Instant now() const { return now_; }

 private:
  std::vector<std::string_view> candidates(const extender::NodeResources& wanted) const;
  std::string_view choose(const kube::Pod& pod, std::vector<std::string_view> names);
  std::string_view choose_by_defaults(const extender::NodeResources& wanted,
                                      const std::vector<std::string_view>& names);
  std::string_view highest(const std::vector<extender::HostScore>& scores);
  Placement assume(const extender::PodRequest& request, const extender::Claim& claim);
  void confirm(extender::Claim claim, const Placement& cards);

  const Objects& objects_;
  extender::Settings settings_;
  SchedulerRules rules_;
  Draws tie_draws_;
  Bookkeeping bookkeeping_;
  extender::Ledger ledger_;
  std::vector<NodeName> names_;                                 // by index
  std::vector<std::size_t> by_name_;                            // indices, names ascending
  std::unordered_map<std::string_view, std::size_t> index_of_;  // names to indices
  Instant now_{};
};

}  // namespace mgpu::trace
