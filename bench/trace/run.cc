#include "bench/trace/run.h"

#include "bench/trace/arrivals.h"
#include "bench/trace/fragmentation_sum.h"
#include "bench/trace/parallel.h"

namespace mgpu::trace {
namespace {

// The run of one seed. The cluster is empty at first.
class Run {
 public:
  Run(const Objects& objects, const RunOptions& options, std::uint64_t seed)
      : objects_(objects),
        options_(options),
        seed_(seed),
        price_source_(options.make_price_source()),
        cycle_(objects, options.policy, price_source_->prices(), options.scheduler, seed),
        curve_(cycle_.bookkeeping().capacity_milli()),
        fragmentation_(options.measure, objects.trace().nodes.size()) {
    for (std::size_t node = 0; node < objects.trace().nodes.size(); ++node) measure(node);
  }

  SeedResult to_end() {
    const std::int64_t target =
        cycle_.bookkeeping().capacity_milli() * options_.arrived_until / 100;
    const auto& pods = objects_.trace().pods;
    for (const std::size_t pod :
         in_order(arrivals_of(pods, target, seed_), pods, options_.order, seed_))
      arrive(pod);
    return result();
  }

 private:
  void arrive(std::size_t index) {
    const TracePod& pod = objects_.trace().pods[index];
    const Outcome outcome = cycle_.schedule(
        index, pod.name + "-" + std::to_string(seed_) + "-" + std::to_string(stats_.decisions),
        *price_source_);
    price_source_->refresh_if_due(cycle_.ledger());
    stats_.add(outcome);
    sample_.arrived_milli += pod.total_milli();
    sample_.allocated_milli = cycle_.bookkeeping().allocated_milli();
    if (outcome.node) measure(*outcome.node);
    sample_.fragmentation_milli = fragmentation_.milli();
    curve_.add(sample_);
    if (options_.keep_arrivals)
      arrivals_.push_back({.pod = index, .node = outcome.node, .cards = outcome.cards});
  }

  void measure(std::size_t node) {
    cycle_.ledger().reader().read(cycle_.now(), [&](const extender::View& view) {
      fragmentation_.update(node, *view.find(cycle_.node_name(node).str()));
    });
  }

  SeedResult result() const {
    SeedResult result{.seed = seed_,
                      .curve = curve_.points(options_.arrived_until),
                      .overcommitted = cycle_.bookkeeping().overcommitted(),
                      .stats = stats_,
                      .arrivals = {.seed = seed_, .nodes = {}, .pods = arrivals_}};
    for (std::size_t node = 0; node < objects_.trace().nodes.size(); ++node)
      result.arrivals.nodes.push_back(cycle_.node_name(node));
    return result;
  }

  const Objects& objects_;
  const RunOptions& options_;
  std::uint64_t seed_;
  std::unique_ptr<PriceSource> price_source_;
  Cycle cycle_;
  Curve curve_;
  FragmentationSum fragmentation_;
  CurveSample sample_;
  DecisionStats stats_;
  std::vector<Arrival> arrivals_;
};

}  // namespace

std::optional<double> SeedResult::at(std::int64_t arrived) const {
  const auto index = static_cast<std::size_t>(arrived);
  if (arrived < 0 || index >= curve.size()) return std::nullopt;
  return curve[index].allocation;
}

SeedResult run_seed(const Objects& objects, const RunOptions& options, std::uint64_t seed) {
  return Run(objects, options, seed).to_end();
}

std::vector<SeedResult> run_seeds(const Objects& objects, const RunOptions& options,
                                  const std::vector<std::uint64_t>& seeds, std::size_t jobs) {
  std::vector<SeedResult> results(seeds.size());
  in_parallel(seeds.size(), jobs,
              [&](std::size_t i) { results[i] = run_seed(objects, options, seeds[i]); });
  return results;
}

}  // namespace mgpu::trace
