#include "plugin/cards/isolation.h"

#include <utility>

namespace mgpu::plugin {

namespace {

// Whole cards need no limit, and an MPS client can use one card only.
bool limited(const Record& record) {
  return record.cards.size() == 1;
}

}  // namespace

Isolation::Isolation(MpsOptions options)
    : options_(std::move(options)), mps_(std::make_unique<Mps>(options_)) {}

void Isolation::follow(const std::vector<CardUuid>& cards) {
  if (mps_) mps_->follow(cards);
}

Result<Edits> Isolation::edits(const Record& record) const {
  if (!mps_ || !limited(record)) return Edits{};
  if (auto ready = mps_->ready(record.cards.front().uuid); !ready) return ready.error();
  return mps_edits(options_, record);
}

std::vector<MpsState> Isolation::states() const {
  return mps_ ? mps_->states() : std::vector<MpsState>();
}

}  // namespace mgpu::plugin
