// A price snapshot maker whose price snapshot never changes.
#pragma once

#include <memory>
#include <utility>

#include "bench/trace/market_maker.h"

namespace mgpu::test {

class FixedMarket final : public trace::PriceMaker {
 public:
  explicit FixedMarket(extender::PriceSnapshotPtr price_snapshot = nullptr) {
    board_->publish(std::move(price_snapshot));
  }

  std::shared_ptr<const extender::CurrentPrices> board() const override { return board_; }
  void seen(const extender::PodRequest&) override { ++pods_seen; }
  void refresh_if_due(extender::Ledger&) override { ++refreshes; }

  int pods_seen = 0;
  int refreshes = 0;

 private:
  std::shared_ptr<extender::CurrentPrices> board_ = std::make_shared<extender::CurrentPrices>();
};

}  // namespace mgpu::test
