#include "extender/web/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace mgpu::extender {
namespace {

void add_node(Sample& sample, const Node& node) {
  std::size_t in_use = 0;
  for (const Card& card : node.cards) {
    sample.core += card.capacity.core.value();
    sample.core_used += card.used.core.value();
    sample.memory += card.capacity.memory.value();
    sample.memory_used += card.used.memory.value();
    const bool used = card.used != Share();
    if (used) ++in_use;
    if (!card.usable()) continue;
    sample.core_free += card.room().core.value();
    if (used) {
      sample.core_free_in_parts += card.room().core.value();
    } else {
      ++sample.cards_free;
    }
  }
  if (in_use > 0 && in_use < node.cards.size()) ++sample.nodes_partly;
}

}  // namespace

Sample sample_of(const Ledger& ledger, std::int64_t unix_ms) {
  Sample sample{.unix_ms = unix_ms};
  ledger.visit_in_steps([&](const Node& node) { add_node(sample, node); });
  sample.pods = static_cast<std::int64_t>(ledger.counts().bound);
  return sample;
}

void History::add(const Sample& sample) {
  if (samples_.size() >= places_) {
    std::vector<Sample> kept;
    kept.reserve(places_);
    for (std::size_t i = 0; i < samples_.size(); i += 2) kept.push_back(samples_[i]);
    samples_ = std::move(kept);
    interval_ = std::min(2 * interval_, kHistoryIntervalMax);
    ++thinned_;
  }
  samples_.push_back(sample);
}

std::string History::json(std::size_t begin) const {
  std::string out = "[";
  for (std::size_t i = begin; i < samples_.size(); ++i) {
    const Sample& at = samples_[i];
    fmt::format_to(std::back_inserter(out), "{}[{},{},{},{},{},{},{},{},{},{}]",
                   i == begin ? "" : ",", at.unix_ms, at.core, at.core_used, at.core_free,
                   at.core_free_in_parts, at.memory, at.memory_used, at.cards_free, at.nodes_partly,
                   at.pods);
  }
  return out + "]";
}

}  // namespace mgpu::extender
