#include "plugin/cards/isolation.h"

#include <utility>

namespace mgpu {

namespace {

// Whole cards need no limit, and an MPS client can use one card only.
bool limited(const allocation::Record& record) {
  return record.cards.size() == 1;
}

}  // namespace

Isolation::Isolation(gpu::MpsOptions options)
    : options_(std::move(options)), mps_(std::make_unique<gpu::Mps>(options_)) {}

void Isolation::follow(const std::vector<CardUuid>& cards) {
  if (mps_) mps_->follow(cards);
}

Result<allocation::Edits> Isolation::edits(const allocation::Record& record) const {
  if (!mps_ || !limited(record)) return allocation::Edits{};
  if (auto ready = mps_->ready(record.cards.front().uuid); !ready) return ready.error();
  return mps_edits(options_, record);
}

std::vector<gpu::MpsState> Isolation::states() const {
  return mps_ ? mps_->states() : std::vector<gpu::MpsState>();
}

}  // namespace mgpu
