#include "bench/trace/run.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "bench/trace/fragmentation_sum.h"

namespace mgpu::trace {
namespace {

// Ascending: without cards, shares, whole cards by number.
std::int64_t size_of(const TracePod& pod) {
  return pod.cards == 1 && pod.milli < 1000 ? 0 : pod.cards == 0 ? -1 : pod.cards;
}

std::string size_name(std::int64_t size) {
  return size < 0 ? "none" : size == 0 ? "share" : std::to_string(size);
}

// One seed's run from the empty cluster on.
class Run {
 public:
  Run(const Objects& objects, const RunSettings& settings, std::uint64_t seed)
      : objects_(objects),
        settings_(settings),
        seed_(seed),
        market_maker_(settings.make_market_maker()),
        cycle_(objects, settings.policy, market_maker_->board(), settings.ties, seed),
        curve_(cycle_.bookkeeping().capacity_milli()),
        fragmentation_(settings.measure, objects.trace().nodes.size()) {
    for (std::size_t node = 0; node < objects.trace().nodes.size(); ++node) measure(node);
  }

  SeedResult to_end() {
    const std::int64_t target =
        cycle_.bookkeeping().capacity_milli() * settings_.arrived_until / 100;
    for (const std::size_t pod : arrivals_of(objects_.trace().pods, target, seed_)) arrive(pod);
    return result();
  }

 private:
  void arrive(std::size_t index) {
    const TracePod& pod = objects_.trace().pods[index];
    const Outcome outcome = cycle_.schedule(
        index, pod.name + "-" + std::to_string(seed_) + "-" + std::to_string(decisions_),
        *market_maker_);
    market_maker_->refresh_if_due(cycle_.ledger());
    ++decisions_;
    took_ += outcome.took;
    standing_.arrived_milli += pod.total_milli();
    standing_.allocated_milli = cycle_.bookkeeping().allocated_milli();
    if (outcome.node) measure(*outcome.node);
    standing_.fragmentation_milli = fragmentation_.milli();
    curve_.add(standing_);
    if (settings_.keep_arrivals)
      arrivals_.push_back({.pod = index, .node = outcome.node, .cards = outcome.cards});
    Failures& failures = failures_[size_of(pod)];
    if (outcome.node) return;
    ++failures.pods;
    failures.gpus += static_cast<double>(pod.total_milli()) / 1000;
  }

  void measure(std::size_t node) {
    cycle_.ledger().read(cycle_.now(), [&](const ledger::View& view) {
      fragmentation_.update(node, *view.find(cycle_.node_name(node).str()));
    });
  }

  SeedResult result() const {
    SeedResult result{.seed = seed_,
                      .curve = curve_.points(settings_.arrived_until),
                      .overcommitted = cycle_.bookkeeping().overcommitted(),
                      .us_per_decision = 0,
                      .decisions = decisions_,
                      .failures = {},
                      .arrivals = {.seed = seed_, .nodes = {}, .pods = arrivals_}};
    if (decisions_ > 0)
      result.us_per_decision = std::chrono::duration<double, std::micro>(took_).count() /
                               static_cast<double>(decisions_);
    for (const auto& [size, failures] : failures_)
      result.failures.push_back({size_name(size), failures.pods, failures.gpus});
    for (std::size_t node = 0; node < objects_.trace().nodes.size(); ++node)
      result.arrivals.nodes.push_back(cycle_.node_name(node));
    return result;
  }

  const Objects& objects_;
  const RunSettings& settings_;
  std::uint64_t seed_;
  std::unique_ptr<MarketMaker> market_maker_;
  Cycle cycle_;
  Curve curve_;
  FragmentationSum fragmentation_;
  Standing standing_;
  std::map<std::int64_t, Failures> failures_;  // by size_of
  std::vector<Arrival> arrivals_;
  std::int64_t decisions_ = 0;
  std::chrono::nanoseconds took_{0};
};

}  // namespace

std::optional<double> SeedResult::at(std::int64_t arrived) const {
  const auto index = static_cast<std::size_t>(arrived);
  if (arrived < 0 || index >= curve.size()) return std::nullopt;
  return curve[index].allocation;
}

SeedResult run_seed(const Objects& objects, const RunSettings& settings, std::uint64_t seed) {
  return Run(objects, settings, seed).to_end();
}

std::vector<SeedResult> run_seeds(const Objects& objects, const RunSettings& settings,
                                  const std::vector<std::uint64_t>& seeds, std::size_t jobs) {
  std::vector<SeedResult> results(seeds.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < seeds.size(); i = next++)
      results[i] = run_seed(objects, settings, seeds[i]);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(jobs, seeds.size()); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return results;
}

}  // namespace mgpu::trace
