#include "plugin/cards/inventory.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

namespace {

bool same(const InventoryState& a, const InventoryState& b) {
  return a.read == b.read && a.problem == b.problem && a.cards == b.cards && a.found == b.found;
}

}  // namespace

Inventory::Inventory(std::unique_ptr<CardSource> source, Hooks hooks)
    : source_(std::move(source)), hooks_(std::move(hooks)), description_(source_->description()) {}

Inventory::~Inventory() {
  stop();
}

void Inventory::stop() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  source_->interrupt();
  if (thread_.joinable()) thread_.join();
}

void Inventory::start() {
  thread_ = std::thread([this] { run(); });
}

InventoryState Inventory::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::vector<DeviceNode> Inventory::nodes_of(const CardUuid& card) const {
  const MutexLock lock(mutex_);
  const auto at = std::ranges::find(state_.found.cards, card, &FoundCard::uuid);
  if (at == state_.found.cards.end()) return {};
  return at->nodes;
}

std::vector<CardUse> Inventory::use() const {
  const MutexLock lock(mutex_);
  return use_;
}

std::string Inventory::description() const {
  const MutexLock lock(mutex_);
  return description_;
}

bool Inventory::wait(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  return !ended_.wait_for(lock, timeout, [this]() MGPU_REQUIRES(mutex_) { return ending_; });
}

bool Inventory::recall() {
  while (true) {
    if (auto known = hooks_.load_known()) {
      known_ = std::move(*known);
      return true;
    }
    if (!wait(kInventoryPeriod)) return false;
  }
}

void Inventory::run() {
  if (!recall()) return;
  do {
    read();
    source_->wait_for_change(kInventoryPeriod);
  } while (wait(std::chrono::milliseconds(0)));
}

// A source is asked by one thread at a time.
void Inventory::look_at_use() {
  auto use = source_->use();
  auto description = source_->description();
  const MutexLock lock(mutex_);
  use_ = std::move(use);
  description_ = std::move(description);
}

void Inventory::read() {
  InventoryState now = state();
  const InventoryState before = now;
  auto found = source_->read();
  look_at_use();
  if (found) {
    Indexed indexed = index_cards(known_, found->cards, hooks_.now());
    const bool changed = indexed.known != known_;
    known_ = std::move(indexed.known);
    // Before anybody hears of a new index: it must never be given twice.
    if (changed || !remembered_) remembered_ = hooks_.save_known(known_);
    now = {true, indexed.problems.empty() ? "" : indexed.problems.front(), std::move(indexed.cards),
           std::move(*found)};
  } else {
    now.problem = found.error().message;
  }
  if (now.problem != std::exchange(told_problem_, now.problem) && !now.problem.empty()) {
    log_warn("cards", {{"source", source_->description()}, {"problem", now.problem}});
  }
  if (same(before, now)) return;
  {
    const MutexLock lock(mutex_);
    state_ = now;
  }
  hooks_.on_change(before, now);
}

}  // namespace mgpu::plugin
