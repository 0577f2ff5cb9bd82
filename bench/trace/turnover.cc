#include "bench/trace/turnover.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <string>
#include <utility>

#include "bench/trace/parallel.h"

namespace mgpu::trace {
namespace {

constexpr std::uint64_t kTurnoverDraws = 4;

double exponential(Draws& draws) {
  return -std::log1p(-draws.fraction());
}

struct RunningPod {
  double ends = 0;
  std::size_t pod = 0;
  std::size_t node = 0;
  std::string uid;
  Placement cards;
};
struct EndsLater {
  bool operator()(const RunningPod& a, const RunningPod& b) const { return a.ends > b.ends; }
};

// Totals over the measured arrivals.
struct Totals {
  std::int64_t pods = 0;
  std::int64_t milli = 0;
};

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

class Turnover {
 public:
  Turnover(const Objects& objects, const RunOptions& options, double load, std::uint64_t seed)
      : pods_(objects.trace().pods),
        seed_(seed),
        draws_(seed, kTurnoverDraws),
        price_source_(options.make_price_source()),
        cycle_(objects, options.policy, price_source_->prices(), options.scheduler, seed) {
    pods_per_lifetime_ = expected_arrivals(objects.trace(), load) / (kWarmUp + kMeasured);
  }

  TurnoverResult to_end() {
    for (;;) {
      const double next = now_ + exponential(draws_) / pods_per_lifetime_;
      if (next >= kWarmUp + kMeasured) break;
      advance_to(next);
      arrive();
    }
    advance_to(kWarmUp + kMeasured);
    return result();
  }

 private:
  bool measuring() const { return now_ >= kWarmUp; }

  // Advances the time, and removes the pods that terminate until then.
  void advance_to(double then) {
    while (!running_.empty() && running_.top().ends <= then) {
      add_held_until(running_.top().ends);
      const RunningPod& gone = running_.top();
      cycle_.remove(gone.pod, gone.uid, gone.node, gone.cards);
      running_.pop();
    }
    add_held_until(then);
  }

  void add_held_until(double then) {
    const double measured = then - std::max(now_, kWarmUp);
    if (measured > 0)
      held_ += measured * static_cast<double>(cycle_.bookkeeping().allocated_milli());
    now_ = then;
  }

  void arrive() {
    const std::size_t index = draws_.below(pods_.size());
    const double lifetime = exponential(draws_);
    std::string uid =
        pods_[index].name + "-" + std::to_string(seed_) + "-" + std::to_string(stats_.decisions);
    Outcome outcome = cycle_.schedule(index, uid, *price_source_);
    price_source_->refresh_if_due(cycle_.ledger());
    stats_.add(outcome);
    if (measuring()) count(pods_[index], outcome);
    if (!outcome.node) return;
    running_.push({.ends = now_ + lifetime,
                   .pod = index,
                   .node = *outcome.node,
                   .uid = std::move(uid),
                   .cards = std::move(outcome.cards)});
  }

  void count(const TracePod& pod, const Outcome& outcome) {
    ++requested_.pods;
    requested_.milli += pod.total_milli();
    if (outcome.node) return;
    ++rejected_.pods;
    rejected_.milli += pod.total_milli();
  }

  TurnoverResult result() const {
    const auto capacity = static_cast<double>(cycle_.bookkeeping().capacity_milli());
    return {.seed = seed_,
            .allocation = percent(held_, capacity * kMeasured),
            .rejected_gpus = percent(static_cast<double>(rejected_.milli),
                                     static_cast<double>(requested_.milli)),
            .rejected_pods =
                percent(static_cast<double>(rejected_.pods), static_cast<double>(requested_.pods)),
            .overcommitted = cycle_.bookkeeping().overcommitted(),
            .stats = stats_};
  }

  const std::vector<TracePod>& pods_;
  std::uint64_t seed_;
  Draws draws_;
  std::unique_ptr<PriceSource> price_source_;
  Cycle cycle_;
  DecisionStats stats_;
  std::priority_queue<RunningPod, std::vector<RunningPod>, EndsLater> running_;
  Totals requested_;
  Totals rejected_;
  double pods_per_lifetime_ = 0;
  double now_ = 0;
  double held_ = 0;  // thousandths of cards times lifetimes
};

}  // namespace

double expected_arrivals(const Trace& trace, double load) {
  std::int64_t milli = 0;
  for (const TracePod& pod : trace.pods) milli += pod.total_milli();
  const double mean = static_cast<double>(milli) / static_cast<double>(trace.pods.size());
  const double capacity = 1000 * static_cast<double>(trace.cards());
  return (kWarmUp + kMeasured) * load / 100 * capacity / mean;
}

TurnoverResult run_turnover(const Objects& objects, const RunOptions& options, double load,
                            std::uint64_t seed) {
  return Turnover(objects, options, load, seed).to_end();
}

std::vector<TurnoverResult> run_turnovers(const Objects& objects, const RunOptions& options,
                                          double load, const std::vector<std::uint64_t>& seeds,
                                          std::size_t jobs) {
  std::vector<TurnoverResult> results(seeds.size());
  in_parallel(seeds.size(), jobs,
              [&](std::size_t i) { results[i] = run_turnover(objects, options, load, seeds[i]); });
  return results;
}

}  // namespace mgpu::trace
