// The trace's own account of what is held, kept beside the ledger and from the trace's own numbers:
// it plays kube-scheduler's NodeResourcesFit, and tells when anything is held twice.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/trace/default_scores.h"
#include "bench/trace/objects.h"
#include "common/contract/gpu_request.h"

namespace mgpu::trace {

// One run's; not thread-safe. Nodes and pods by their index in the trace.
class Bookkeeping {
 public:
  explicit Bookkeeping(const Objects& objects);

  // Whether the node's CPU and main memory are enough; what NodeResourcesFit asks beside cards.
  bool host_fits(std::size_t node, const extender::NodeResources& wanted) const {
    return wanted.cpu.value() <= free_cpu_[node] && wanted.memory.value() <= free_memory_[node];
  }

  HostRoom room(std::size_t node) const;

  void place(std::size_t pod, std::size_t node, const Placement& cards);
  // REQUIRES: it was placed there, on those cards.
  void remove(std::size_t pod, std::size_t node, const Placement& cards);

  std::int64_t allocated_milli() const { return allocated_milli_; }
  std::int64_t capacity_milli() const { return capacity_milli_; }
  // Placements after which a node's CPU or memory or a card of it was held beyond what there is,
  // and placements on cards that the pod did not ask for: too few, twice the same, not there, of
  // another model.
  std::int64_t overcommitted() const { return overcommitted_; }

 private:
  struct Card {
    std::int64_t free_milli;
    std::int64_t free_memory;
  };
  void hold(std::size_t pod, std::size_t node, const Placement& cards, int sign);
  bool as_asked(const TracePod& pod, std::size_t node, const Placement& cards) const;
  bool within(std::size_t node) const;
  Card* card(std::size_t node, CardIndex index);

  const Objects& objects_;
  std::vector<std::int64_t> free_cpu_;     // thousandths of a core, by node
  std::vector<std::int64_t> free_memory_;  // MiB, by node
  std::vector<std::size_t> first_card_;    // into cards_, by node, and one past the last
  std::vector<Card> cards_;
  std::int64_t allocated_milli_ = 0;
  std::int64_t capacity_milli_ = 0;
  std::int64_t overcommitted_ = 0;
};

}  // namespace mgpu::trace
