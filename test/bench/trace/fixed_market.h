// A market maker whose market never changes.
#pragma once

#include <memory>
#include <utility>

#include "bench/trace/market_maker.h"

namespace mgpu::test {

class FixedMarket final : public trace::MarketMaker {
 public:
  explicit FixedMarket(extender::MarketPtr market = nullptr) { board_->publish(std::move(market)); }

  std::shared_ptr<const extender::Board> board() const override { return board_; }
  void seen(const extender::PodRequest&) override { ++pods_seen; }
  void refresh_if_due(extender::Ledger&) override { ++refreshes; }

  int pods_seen = 0;
  int refreshes = 0;

 private:
  std::shared_ptr<extender::Board> board_ = std::make_shared<extender::Board>();
};

}  // namespace mgpu::test
