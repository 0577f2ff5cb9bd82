#include "extender/learning/price_builder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "extender/pricing/limits.h"
#include "extender/pricing/model_prior.h"

namespace mgpu::extender {

PriceBuilder::PriceBuilder(Ledger& ledger, CurrentPrices& current_prices,
                           CountClasses count_classes, Decisions::Compute compute)
    : ledger_(ledger),
      current_prices_(current_prices),
      count_classes_(std::move(count_classes)),
      compute_(std::move(compute)) {}

Kinds PriceBuilder::count_kinds() const {
  KindCount count;
  ledger_.reader().visit_in_steps([&](const Node& node) { count.add(node); });
  return count.kinds();
}

// A kind that appears after the kinds were counted has no price before the next snapshot.
std::vector<NodeRoom> PriceBuilder::read_rooms(const Kinds& kinds) const {
  std::vector<NodeRoom> rooms;
  // Under the lock a step does not allocate.
  const auto reserve = [&rooms] {
    if (rooms.capacity() < rooms.size() + kNodeCopiesMax) rooms.reserve(2 * rooms.size() + 1024);
    return true;
  };
  reserve();
  ledger_.reader().visit_in_steps(
      [&](const Node& node) {
        if (!node.cards.empty()) rooms.push_back(room_after(node, kinds, {}, {}));
      },
      reserve);
  return rooms;
}

PriceSnapshot PriceBuilder::expect_workload(const Kinds& kinds) {
  PriceSnapshot price_snapshot;
  auto counted = count_classes_();
  compute_([&] {
    price_snapshot.target = TargetWorkload(workload_of(counted, kTargetCover, kPricedClassesMax));
    price_snapshot.workload = workload_of(std::move(counted), kPricedCover, kPricedClassesMax);
    add_model_prior(kinds, price_snapshot.workload);
  });
  return price_snapshot;
}

void PriceBuilder::build(Instant now, const GoOn& go_on) {
  const Kinds kinds = count_kinds();
  const std::vector<NodeRoom> rooms = read_rooms(kinds);
  PriceSnapshot price_snapshot = expect_workload(kinds);
  if (!last_) {
    publish(price_snapshot, kinds, rooms, {}, kQuickStart, now, go_on);
    return publish(std::move(price_snapshot), kinds, rooms, {}, kFromNothing, now, go_on);
  }
  Prices start;
  compute_([&] { start = carried_over(last_->workload, last_->prices, price_snapshot.workload); });
  publish(std::move(price_snapshot), kinds, rooms, std::move(start), kOnline, now, go_on);
}

void PriceBuilder::publish(PriceSnapshot price_snapshot, const Kinds& kinds,
                           const std::vector<NodeRoom>& rooms, Prices start, const Refinement& how,
                           Instant now, const GoOn& go_on) {
  price_snapshot.version = last_ ? last_->version + 1 : 1;
  compute_([&] {
    price_snapshot.prices =
        refine(price_snapshot.workload, kinds, rooms, std::move(start), how, go_on);
    price_snapshot.tables = PriceTables(price_snapshot.workload, kinds, price_snapshot.prices);
  });
  MGPU_CHECK(price_snapshot.prices.supply.size() == price_snapshot.workload.classes.size(),
             "a price for each class");
  MGPU_CHECK(!last_ || price_snapshot.version > last_->version, "versions ascend");
  last_ = std::make_shared<const PriceSnapshot>(std::move(price_snapshot));
  ledger_.decisions().prewarm_scores(*last_, go_on, compute_);
  current_prices_.publish(last_, now);
}

bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most) {
  return pods_now - pods_then >= std::clamp<std::uint64_t>(pods_then / 10, 1, most);
}

}  // namespace mgpu::extender
