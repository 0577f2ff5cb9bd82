#include "extender/learning/price_builder.h"

#include <algorithm>
#include <utility>

#include "extender/pricing/limits.h"

namespace mgpu::extender {

PriceBuilder::PriceBuilder(Ledger& ledger, CurrentPrices& board, CountClasses count_classes)
    : ledger_(ledger), board_(board), count_classes_(std::move(count_classes)) {}

std::vector<NodeRoom> PriceBuilder::look(Instant now) {
  std::vector<NodeRoom> rooms;
  KindCount kinds;
  ledger_.read(now,
               [&](const View& view) { view.each([&](const Node& node) { kinds.add(node); }); });
  kinds_ = kinds.kinds();
  largest_ = {};
  ledger_.read(now, [&](const View& view) {
    view.each([&](const Node& node) {
      if (node.cards.empty()) return;
      largest_.add(node, kinds_);
      rooms.push_back(room_after(node, kinds_, {}, {}));
    });
  });
  return rooms;
}

void PriceBuilder::make(Instant now, const GoOn& go_on) {
  const auto rooms = look(now);
  auto counted = count_classes_();
  PriceSnapshot price_snapshot;
  price_snapshot.target = TargetWorkload(workload_of(counted, kTargetCover, kPricedClassesMax));
  price_snapshot.workload = workload_of(std::move(counted), kPricedCover, kPricedClassesMax);
  add_model_prior(kinds_, largest_, price_snapshot.workload);
  if (!last_) {
    publish(price_snapshot, rooms, {}, kQuickStart, now, go_on);
    return publish(std::move(price_snapshot), rooms, {}, kFromNothing, now, go_on);
  }
  auto start = carried_over(last_->workload, last_->prices, price_snapshot.workload);
  publish(std::move(price_snapshot), rooms, std::move(start), kOnline, now, go_on);
}

void PriceBuilder::publish(PriceSnapshot price_snapshot, const std::vector<NodeRoom>& rooms,
                           Prices start, const Refinement& how, Instant now, const GoOn& go_on) {
  price_snapshot.version = last_ ? last_->version + 1 : 1;
  price_snapshot.prices =
      refine(price_snapshot.workload, kinds_, rooms, std::move(start), how, go_on);
  price_snapshot.tables = PriceTables(price_snapshot.workload, kinds_, price_snapshot.prices);
  last_ = std::make_shared<const PriceSnapshot>(std::move(price_snapshot));
  ledger_.score_ahead(*last_, go_on);
  board_.publish(last_, now);
}

bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most) {
  return pods_now - pods_then >= std::clamp<std::uint64_t>(pods_then / 10, 1, most);
}

}  // namespace mgpu::extender
