// A price source whose prices never change.
#pragma once

#include <memory>
#include <utility>

#include "bench/trace/price_source.h"

namespace mgpu::test {

class FixedPrices final : public trace::PriceSource {
 public:
  explicit FixedPrices(extender::PriceSnapshotPtr price_snapshot = nullptr) {
    prices_->publish(std::move(price_snapshot));
  }

  std::shared_ptr<const extender::CurrentPrices> prices() const override { return prices_; }
  void observe(const extender::PodRequest&) override { ++pods_observed; }
  void refresh_if_due(extender::Ledger&) override { ++refreshes; }

  int pods_observed = 0;
  int refreshes = 0;

 private:
  std::shared_ptr<extender::CurrentPrices> prices_ = std::make_shared<extender::CurrentPrices>();
};

}  // namespace mgpu::test
