// What pods hold, computed from the trace's own numbers and independently of the ledger. It stands
// in for kube-scheduler's NodeResourcesFit plugin, and counts overcommitted nodes and cards.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/trace/default_scores.h"
#include "bench/trace/objects.h"
#include "common/contract/gpu_request.h"

namespace mgpu::trace {

// Each run has its own. Not thread-safe. Nodes and pods are given by their index in the trace.
class Bookkeeping {
 public:
  explicit Bookkeeping(const Objects& objects);

  // Whether the node has enough CPU, main memory, and compute and memory of all its cards together,
  // as NodeResourcesFit checks it.
  bool sums_fit(std::size_t node, std::size_t pod) const;

  NodeCapacity capacity(std::size_t node) const;
  // Whether the node's cards need its CPU (common/contract/cpu_taint.h).
  bool tainted(std::size_t node) const;
  std::int64_t free_milli(std::size_t node) const { return free_milli_[node]; }

  void place(std::size_t pod, std::size_t node, const Placement& cards);
  // REQUIRES: the pod was placed on that node and those cards.
  void remove(std::size_t pod, std::size_t node, const Placement& cards);

  std::int64_t allocated_milli() const { return allocated_milli_; }
  std::int64_t capacity_milli() const { return capacity_milli_; }
  // Number of bad placements. A placement is bad when the node or one of its cards is overcommitted
  // afterwards, or when the cards are not what the pod requested: too few, one card twice, a card
  // that the node does not have, or another model.
  std::int64_t overcommitted() const { return overcommitted_; }

 private:
  struct Card {
    std::int64_t free_milli;
    std::int64_t free_memory;
  };
  void hold(std::size_t pod, std::size_t node, const Placement& cards, int sign);
  bool matches_request(const TracePod& pod, std::size_t node, const Placement& cards) const;
  bool within(std::size_t node) const;
  Card* card(std::size_t node, CardIndex index);

  const Objects& objects_;
  std::vector<std::int64_t> free_cpu_;          // thousandths of a core, by node
  std::vector<std::int64_t> free_memory_;       // MiB, by node
  std::vector<std::int64_t> free_milli_;        // of all cards of the node
  std::vector<std::int64_t> free_card_memory_;  // of all cards of the node
  std::vector<std::size_t> first_card_;         // into cards_, by node, and one past the last
  std::vector<Card> cards_;
  std::int64_t allocated_milli_ = 0;
  std::int64_t capacity_milli_ = 0;
  std::int64_t overcommitted_ = 0;
};

}  // namespace mgpu::trace
