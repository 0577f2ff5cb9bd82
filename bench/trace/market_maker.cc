#include "bench/trace/market_maker.h"

#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/trace/limits.h"
#include "common/base/check.h"
#include "extender/learning/price_builder.h"
#include "extender/learning/workload_window.h"

namespace mgpu::trace {
namespace {

constexpr double kCover = 0.95;

// What pods of one class have in common, in the order that decides which of equally common classes
// the 95 % still hold: pkg/type/typical_pods.go (PodResource.Less) of the published simulator.
using Key =
    std::tuple<extender::MilliCpu, std::int32_t, std::int32_t, std::vector<std::string>, MiB>;

struct Counted {
  std::size_t first_pod = 0;
  std::int64_t pods = 0;
  std::int64_t memory_mib = 0;  // of all of them
};

Key key_of(const Objects& objects, std::size_t index) {
  const TracePod& pod = objects.trace().pods[index];
  return {pod.host.cpu, pod.milli, pod.cards, pod.models, objects.share_memory(index)};
}

// Descending by key.
std::vector<Counted> count_classes(const Objects& objects) {
  std::map<Key, Counted, std::greater<>> by_key;
  for (std::size_t pod = 0; pod < objects.trace().pods.size(); ++pod) {
    Counted& counted = by_key.try_emplace(key_of(objects, pod), Counted{pod}).first->second;
    ++counted.pods;
    counted.memory_mib += objects.trace().pods[pod].host.memory.value();
  }
  const auto classes = std::views::values(by_key);
  return {classes.begin(), classes.end()};
}

// As the product counts a pod of this kind.
extender::PodClass class_of(const Objects& objects, const Counted& counted) {
  const auto request =
      read_request(objects.pod(counted.first_pod, "class"), objects.contract(), MiB(1));
  MGPU_CHECK(request.has_value(), "a trace's pods are made by the contract");
  const extender::NodeResources host{objects.trace().pods[counted.first_pod].host.cpu,
                                     MiB(counted.memory_mib / counted.pods)};
  auto classes = extender::classes_of(*request, host);
  MGPU_CHECK(classes.size() == 1, "a trace's pods have one container");
  return std::move(classes.front());
}

std::vector<extender::CountedClass> counted_classes(const Objects& objects) {
  std::vector<extender::CountedClass> counted;
  for (const Counted& one : count_classes(objects))
    counted.push_back({class_of(objects, one), one.pods});
  return counted;
}

// As the extender makes price snapshots, but between two pods and not beside them.
class PricedWorkload final : public PriceMaker {
 public:
  // Without `counted`, what has been seen.
  explicit PricedWorkload(std::optional<std::vector<extender::CountedClass>> counted)
      : counted_(std::move(counted)) {}

  std::shared_ptr<const extender::CurrentPrices> board() const override { return board_; }
  void seen(const extender::PodRequest& pod) override {
    window_.seen(pod.tie_break_seed, pod.request, pod.host);
  }
  void refresh_if_due(extender::Ledger& ledger) override {
    if (!maker_) maker_.emplace(ledger, *board_, [this] { return classes(); });
    const std::uint64_t now = window_.pods_seen();
    if (!extender::is_due(now, made_at_, kPodsPerMarket)) return;
    made_at_ = now;
    maker_->build(Instant{});
  }

 private:
  std::vector<extender::CountedClass> classes() const {
    return counted_ ? *counted_ : window_.counted();
  }

  std::optional<std::vector<extender::CountedClass>> counted_;
  extender::WorkloadWindow window_;
  std::shared_ptr<extender::CurrentPrices> board_ = std::make_shared<extender::CurrentPrices>();
  std::optional<extender::PriceBuilder> maker_;
  std::uint64_t made_at_ = 0;
};

class KnownWorkload final : public PriceMaker {
 public:
  explicit KnownWorkload(extender::PriceSnapshotPtr price_snapshot) {
    board_->publish(std::move(price_snapshot));
  }

  std::shared_ptr<const extender::CurrentPrices> board() const override { return board_; }
  void seen(const extender::PodRequest&) override {}
  void refresh_if_due(extender::Ledger&) override {}

 private:
  std::shared_ptr<extender::CurrentPrices> board_ = std::make_shared<extender::CurrentPrices>();
};

}  // namespace

extender::Workload target_workload(const Objects& objects) {
  return extender::workload_of(counted_classes(objects), kCover, limits::kClassesMax);
}

MakeMarketMaker known_workload(const Objects& objects, bool prices) {
  if (prices) {
    return
        [counted = counted_classes(objects)] { return std::make_unique<PricedWorkload>(counted); };
  }
  auto price_snapshot = std::make_shared<extender::PriceSnapshot>();
  price_snapshot->version = 1;
  price_snapshot->workload = target_workload(objects);
  price_snapshot->target = extender::TargetWorkload(price_snapshot->workload);
  return [price_snapshot] { return std::make_unique<KnownWorkload>(price_snapshot); };
}

MakeMarketMaker learned_workload() {
  return [] { return std::make_unique<PricedWorkload>(std::nullopt); };
}

}  // namespace mgpu::trace
