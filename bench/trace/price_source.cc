#include "bench/trace/price_source.h"

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

// Pods with equal keys form one class. The order of keys decides which of equally frequent classes
// are kept within the 95 %; it is that of the published simulator (pkg/type/typical_pods.go,
// PodResource.Less).
using Key =
    std::tuple<extender::MilliCpu, std::int32_t, std::int32_t, std::vector<std::string>, MiB>;

struct Counted {
  std::size_t first_pod = 0;
  std::int64_t pods = 0;
  std::int64_t memory_mib = 0;  // sum over the pods
};

Key key_of(const Objects& objects, std::size_t index) {
  const TracePod& pod = objects.trace().pods[index];
  return {pod.resources.cpu, pod.milli, pod.cards, pod.models, objects.share_memory(index)};
}

// The classes of the list, descending by key.
std::vector<Counted> count_classes(const Objects& objects) {
  std::map<Key, Counted, std::greater<>> by_key;
  for (std::size_t pod = 0; pod < objects.trace().pods.size(); ++pod) {
    Counted& counted = by_key.try_emplace(key_of(objects, pod), Counted{pod}).first->second;
    ++counted.pods;
    counted.memory_mib += objects.trace().pods[pod].resources.memory.value();
  }
  const auto classes = std::views::values(by_key);
  return {classes.begin(), classes.end()};
}

// The class as the extender reads it from such a pod.
extender::PodClass class_of(const Objects& objects, const Counted& counted) {
  const auto request =
      read_request(objects.pod(counted.first_pod, "class"), objects.contract(), MiB(1));
  MGPU_CHECK(request.has_value(), "pods of a trace are valid requests");
  const extender::NodeResources resources{objects.trace().pods[counted.first_pod].resources.cpu,
                                          MiB(counted.memory_mib / counted.pods)};
  auto classes = extender::classes_of(*request, resources);
  MGPU_CHECK(classes.size() == 1, "pods of a trace have one container");
  return std::move(classes.front());
}

std::vector<extender::CountedClass> counted_classes(const Objects& objects) {
  std::vector<extender::CountedClass> counted;
  for (const Counted& one : count_classes(objects))
    counted.push_back({class_of(objects, one), static_cast<double>(one.pods)});
  return counted;
}

// Builds prices with the extender's own code, once in kPodsPerRefresh pods.
class PricedWorkload final : public PriceSource {
 public:
  // Uses the observed pods if `counted` is not set.
  explicit PricedWorkload(std::optional<std::vector<extender::CountedClass>> counted)
      : counted_(std::move(counted)) {}

  std::shared_ptr<const extender::CurrentPrices> prices() const override { return prices_; }
  void observe(const extender::PodRequest& pod) override {
    window_.seen(pod.tie_break_seed, "", pod.request, pod.resources);
  }
  void refresh_if_due(extender::Ledger& ledger) override {
    if (!builder_) builder_.emplace(ledger, *prices_, [this] { return classes(); });
    const std::uint64_t now = window_.pods_that_change_prices();
    if (!extender::is_due(now, last_refresh_, kPodsPerRefresh)) return;
    last_refresh_ = now;
    builder_->build(Instant{});
  }

 private:
  std::vector<extender::CountedClass> classes() const {
    return counted_ ? *counted_ : window_.counted();
  }

  std::optional<std::vector<extender::CountedClass>> counted_;
  extender::WorkloadWindow window_;
  std::shared_ptr<extender::CurrentPrices> prices_ = std::make_shared<extender::CurrentPrices>();
  std::optional<extender::PriceBuilder> builder_;
  std::uint64_t last_refresh_ = 0;
};

// Has a workload, and no prices.
class KnownWorkload final : public PriceSource {
 public:
  explicit KnownWorkload(extender::PriceSnapshotPtr price_snapshot) {
    prices_->publish(std::move(price_snapshot));
  }

  std::shared_ptr<const extender::CurrentPrices> prices() const override { return prices_; }
  void observe(const extender::PodRequest&) override {}
  void refresh_if_due(extender::Ledger&) override {}

 private:
  std::shared_ptr<extender::CurrentPrices> prices_ = std::make_shared<extender::CurrentPrices>();
};

}  // namespace

extender::Workload target_workload(const Objects& objects) {
  return extender::workload_of(counted_classes(objects), kCover, limits::kClassesMax);
}

PriceSourceFactory known_workload(const Objects& objects, bool prices) {
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

PriceSourceFactory learned_workload() {
  return [] { return std::make_unique<PricedWorkload>(std::nullopt); };
}

}  // namespace mgpu::trace
