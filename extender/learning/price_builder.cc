#include "extender/learning/price_builder.h"

#include <algorithm>
#include <utility>

#include "extender/pricing/limits.h"

namespace mgpu::extender {

Maker::Maker(Ledger& ledger, Board& board, CountClasses count_classes)
    : ledger_(ledger), board_(board), count_classes_(std::move(count_classes)) {}

std::vector<NodeRoom> Maker::look(Instant now) {
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

void Maker::make(Instant now, const GoOn& go_on) {
  const auto rooms = look(now);
  auto counted = count_classes_();
  Market market;
  market.target = TargetWorkload(workload_of(counted, kTargetCover, kPricedClassesMax));
  market.workload = workload_of(std::move(counted), kPricedCover, kPricedClassesMax);
  expect_every_model(kinds_, largest_, market.workload);
  if (!last_) {
    publish(market, rooms, {}, kInHaste, now, go_on);
    return publish(std::move(market), rooms, {}, kFromNothing, now, go_on);
  }
  auto start = carried_over(last_->workload, last_->prices, market.workload);
  publish(std::move(market), rooms, std::move(start), kOnline, now, go_on);
}

void Maker::publish(Market market, const std::vector<NodeRoom>& rooms, Prices start,
                    const Refinement& how, Instant now, const GoOn& go_on) {
  market.version = last_ ? last_->version + 1 : 1;
  market.prices = refine(market.workload, kinds_, rooms, std::move(start), how, go_on);
  market.tables = PriceTables(market.workload, kinds_, market.prices);
  last_ = std::make_shared<const Market>(std::move(market));
  ledger_.score_ahead(*last_, go_on);
  board_.publish(last_, now);
}

bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most) {
  return pods_now - pods_then >= std::clamp<std::uint64_t>(pods_then / 10, 1, most);
}

}  // namespace mgpu::extender
