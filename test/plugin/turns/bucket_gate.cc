#include "test/plugin/turns/bucket_gate.h"

#include <algorithm>
#include <cmath>

namespace mgpu::plugin::model {
namespace {

// Of an H200.
constexpr std::int64_t kProcessors = 132;
constexpr std::int64_t kThreads = 2'048;  // of a processor
constexpr std::int64_t kBlocksMax = kProcessors * kThreads * 32;

// NVML reports whole percent of each process.
constexpr Time kSample = 100 * kMillisecond;
constexpr double kNoise = 1.5;  // percent

constexpr Time kDeltaPeriod = 120 * kMillisecond;
constexpr Time kAimdPeriod = 100 * kMillisecond;
constexpr Time kRetry = 10 * kMillisecond;
constexpr std::int64_t kLeastDifference = 5;
constexpr int kHold = 3;

}  // namespace

BucketGate::BucketGate(Controller controller, const std::vector<double>& shares, double density)
    : controller_(controller), density_(density) {
  for (const double share : shares) {
    containers_.push_back({.limit = std::lround(share * 100), .most = kBlocksMax});
  }
}

void BucketGate::begin(Card& card) {
  card_ = &card;
  sample();
  watch();
}

bool BucketGate::may_launch(std::size_t who, int /*stream*/) {
  if (containers_[who].tokens >= 0) return true;
  card_->at(card_->now() + kRetry, [this, who] { card_->wake(who, 0); });
  return false;
}

void BucketGate::launched(std::size_t who, int /*stream*/, const Kernel& kernel) {
  containers_[who].tokens -= std::lround(density_ * kernel.blocks);
}

void BucketGate::sample() {
  for (std::size_t who = 0; who < containers_.size(); ++who) {
    Container& container = containers_[who];
    const Time busy = card_->busy(who);
    const double percent = 100.0 * static_cast<double>(busy - container.busy) / kSample;
    const double noise = percent > 0 ? kNoise * card_->random().normal() : 0;
    container.utilization = std::lround(std::clamp(percent + noise, 0.0, 100.0));
    container.busy = busy;
  }
  card_->at(card_->now() + kSample, [this] { sample(); });
}

void BucketGate::refill_by_difference(Container& container) {
  const std::int64_t limit = container.limit;
  const std::int64_t difference =
      std::max(kLeastDifference, std::abs(limit - container.utilization));
  std::int64_t step = kProcessors * kProcessors * kThreads * difference / 2'560;
  if (difference > limit / 2) step = step * difference * 2 / (limit + 1);
  if (container.refill == container.most && container.tokens < 0) {
    container.most *= 2;
    container.refill = container.most;
  }
  const bool up = container.utilization <= limit;
  container.refill =
      std::clamp<std::int64_t>(container.refill + (up ? step : -step), 0, container.most);
  container.tokens = std::min(container.most, container.tokens + container.refill);
}

void BucketGate::refill_by_aimd(Container& container) {
  const std::int64_t high = container.limit * 7 / 8;
  const std::int64_t low = std::min(high - 1, container.limit * 8 / 10);
  const std::int64_t step = kProcessors * kThreads * 3 * high / 400;
  if (container.hold > 0) --container.hold;
  if (container.utilization < low) {
    const std::int64_t gap = std::max(kLeastDifference, container.limit - container.utilization);
    container.refill += step * gap / 5;
  } else if (container.utilization > high && container.hold == 0) {
    container.refill /= 3;
    container.hold = kHold + 1;
  }
  container.refill = std::clamp(container.refill, step, container.most);
  // What was overdrawn is forgiven.
  container.tokens =
      std::clamp<std::int64_t>(container.tokens + container.refill, 0, container.most);
}

void BucketGate::watch() {
  const bool delta = controller_ == Controller::kDelta;
  for (Container& container : containers_) {
    delta ? refill_by_difference(container) : refill_by_aimd(container);
  }
  card_->at(card_->now() + (delta ? kDeltaPeriod : kAimdPeriod), [this] { watch(); });
}

}  // namespace mgpu::plugin::model
