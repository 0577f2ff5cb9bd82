#include "bench/trace/bookkeeping.h"

#include <algorithm>
#include <set>

#include "common/contract/cpu_taint.h"

namespace mgpu::trace {
namespace {

constexpr std::int64_t kWholeMilli = 1000;

}  // namespace

Bookkeeping::Bookkeeping(const Objects& objects) : objects_(objects) {
  for (const TraceNode& node : objects.trace().nodes) {
    free_cpu_.push_back(node.resources.cpu.value());
    free_memory_.push_back(node.resources.memory.value());
    first_card_.push_back(cards_.size());
    const std::int64_t memory = node.cards > 0 ? objects.card_memory(node.model).value() : 0;
    cards_.insert(cards_.end(), static_cast<std::size_t>(node.cards), Card{kWholeMilli, memory});
    free_milli_.push_back(node.cards * kWholeMilli);
    free_card_memory_.push_back(node.cards * memory);
    capacity_milli_ += node.cards * kWholeMilli;
  }
  first_card_.push_back(cards_.size());
}

bool Bookkeeping::sums_fit(std::size_t node, std::size_t pod) const {
  const TracePod& of = objects_.trace().pods[pod];
  // A pod requests no memory of whole cards, which hold all of theirs.
  const std::int64_t memory = of.cards * objects_.share_memory(pod).value();
  return of.resources.cpu.value() <= free_cpu_[node] &&
         of.resources.memory.value() <= free_memory_[node] &&
         of.total_milli() <= free_milli_[node] && memory <= free_card_memory_[node];
}

NodeCapacity Bookkeeping::capacity(std::size_t node) const {
  return {.allocatable = objects_.trace().nodes[node].resources,
          .free = {extender::MilliCpu(free_cpu_[node]), MiB(free_memory_[node])}};
}

bool Bookkeeping::tainted(std::size_t node) const {
  constexpr std::int64_t kMilliPerPercent = 10;
  return cards_need_cpu(free_cpu_[node], Percent(free_milli_[node] / kMilliPerPercent));
}

void Bookkeeping::place(std::size_t pod, std::size_t node, const Placement& cards) {
  hold(pod, node, cards, 1);
  const bool good = matches_request(objects_.trace().pods[pod], node, cards) && within(node);
  if (!good) ++overcommitted_;
}

void Bookkeeping::remove(std::size_t pod, std::size_t node, const Placement& cards) {
  hold(pod, node, cards, -1);
}

void Bookkeeping::hold(std::size_t pod, std::size_t node, const Placement& placement, int sign) {
  const TracePod& from = objects_.trace().pods[pod];
  free_cpu_[node] -= sign * from.resources.cpu.value();
  free_memory_[node] -= sign * from.resources.memory.value();
  allocated_milli_ += sign * from.total_milli();
  free_milli_[node] -= sign * from.total_milli();
  free_card_memory_[node] -= sign * from.cards * objects_.share_memory(pod).value();
  const bool whole = from.milli == kWholeMilli;
  const std::string& model = objects_.trace().nodes[node].model;
  const MiB memory = whole ? objects_.card_memory(model) : objects_.share_memory(pod);
  for (const auto& cards : placement.cards_of) {
    for (const CardIndex index : cards) {
      Card* held = card(node, index);
      if (held == nullptr) continue;
      held->free_milli -= sign * from.milli;
      held->free_memory -= sign * memory.value();
    }
  }
}

bool Bookkeeping::matches_request(const TracePod& pod, std::size_t node,
                                  const Placement& placement) const {
  const TraceNode& on = objects_.trace().nodes[node];
  std::set<CardIndex> cards;
  std::size_t named = 0;
  for (const auto& of_container : placement.cards_of) {
    cards.insert(of_container.begin(), of_container.end());
    named += of_container.size();
  }
  if (cards.size() != named || named != static_cast<std::size_t>(pod.cards)) return false;
  if (cards.empty()) return true;
  if (cards.begin()->value() < 0 || cards.rbegin()->value() >= on.cards) return false;
  return pod.models.empty() ||
         std::find(pod.models.begin(), pod.models.end(), on.model) != pod.models.end();
}

bool Bookkeeping::within(std::size_t node) const {
  if (free_cpu_[node] < 0 || free_memory_[node] < 0) return false;
  return std::all_of(
      cards_.begin() + static_cast<std::ptrdiff_t>(first_card_[node]),
      cards_.begin() + static_cast<std::ptrdiff_t>(first_card_[node + 1]),
      [](const Card& card) { return card.free_milli >= 0 && card.free_memory >= 0; });
}

Bookkeeping::Card* Bookkeeping::card(std::size_t node, CardIndex index) {
  const std::size_t at = first_card_[node] + static_cast<std::size_t>(index.value());
  return index.value() >= 0 && at < first_card_[node + 1] ? &cards_[at] : nullptr;
}

}  // namespace mgpu::trace
