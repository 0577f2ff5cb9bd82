#include "extender/learning/price_builder.h"

#include <algorithm>
#include <utility>

#include "extender/limits.h"

namespace mgpu::market {

Maker::Maker(ledger::Ledger& ledger, Board& board, CountClasses count_classes)
    : ledger_(ledger), board_(board), count_classes_(std::move(count_classes)) {}

std::vector<placement::NodeRoom> Maker::look(Instant now) {
  std::vector<placement::NodeRoom> rooms;
  placement::KindCount kinds;
  ledger_.read(now, [&](const ledger::View& view) {
    view.each([&](const placement::Node& node) { kinds.add(node); });
  });
  kinds_ = kinds.kinds();
  largest_ = {};
  ledger_.read(now, [&](const ledger::View& view) {
    view.each([&](const placement::Node& node) {
      if (node.cards.empty()) return;
      largest_.add(node, kinds_);
      rooms.push_back(placement::room_after(node, kinds_, {}, {}));
    });
  });
  return rooms;
}

void Maker::make(Instant now, const placement::GoOn& go_on) {
  const auto rooms = look(now);
  auto counted = count_classes_();
  placement::Market market;
  market.target = placement::TargetWorkload(
      placement::workload_of(counted, kTargetCover, limits::kPricedClassesMax));
  market.workload =
      placement::workload_of(std::move(counted), kPricedCover, limits::kPricedClassesMax);
  placement::expect_every_model(kinds_, largest_, market.workload);
  if (!last_) {
    publish(market, rooms, {}, placement::kInHaste, now, go_on);
    return publish(std::move(market), rooms, {}, placement::kFromNothing, now, go_on);
  }
  auto start = placement::carried_over(last_->workload, last_->prices, market.workload);
  publish(std::move(market), rooms, std::move(start), placement::kOnline, now, go_on);
}

void Maker::publish(placement::Market market, const std::vector<placement::NodeRoom>& rooms,
                    placement::Prices start, const placement::Refinement& how, Instant now,
                    const placement::GoOn& go_on) {
  market.version = last_ ? last_->version + 1 : 1;
  market.prices = placement::refine(market.workload, kinds_, rooms, std::move(start), how, go_on);
  market.tables = placement::PriceTables(market.workload, kinds_, market.prices);
  last_ = std::make_shared<const placement::Market>(std::move(market));
  ledger_.score_ahead(*last_, go_on);
  board_.publish(last_, now);
}

bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most) {
  return pods_now - pods_then >= std::clamp<std::uint64_t>(pods_then / 10, 1, most);
}

}  // namespace mgpu::market
