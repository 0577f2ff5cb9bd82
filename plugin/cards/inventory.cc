#include "plugin/cards/inventory.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/text.h"

namespace mgpu::plugin {

Inventory::Inventory(std::unique_ptr<CardSource> source, Dependencies dependencies)
    : source_(std::move(source)),
      dependencies_(std::move(dependencies)),
      description_(source_->description()) {}

Inventory::~Inventory() {
  stop();
}

void Inventory::start() {
  MGPU_DEBUG_CHECK(!thread_.joinable(), "the inventory is started once");
  thread_ = std::thread([this] { run(); });
}

void Inventory::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  source_->interrupt();
  if (thread_.joinable()) thread_.join();
}

InventoryState Inventory::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::uint64_t Inventory::reads() const {
  const MutexLock lock(mutex_);
  return reads_;
}

std::optional<std::vector<DeviceNode>> Inventory::nodes_of(const CardUuid& card) const {
  const MutexLock lock(mutex_);
  const auto at = std::ranges::find(state_.found.cards, card, &FoundCard::uuid);
  if (at == state_.found.cards.end()) return std::nullopt;
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
  return !changed_.wait_for(lock, timeout, [this]() MGPU_REQUIRES(mutex_) { return stopping_; });
}

void Inventory::run() {
  auto known = dependencies_.load_known();
  while (!known) {
    if (!wait(kInventoryPeriod)) return;
    known = dependencies_.load_known();
  }
  known_ = *std::move(known);
  do {
    read();
    source_->wait_for_change(kInventoryPeriod);
  } while (wait(std::chrono::milliseconds(0)));
}

Result<FoundCards> Inventory::released_cards(const FoundCards& before,
                                             const std::string& why) const {
  if (before.cards.empty()) return error(why);
  FoundCards released = before;
  for (FoundCard& card : released.cards) card.health = cut_text(why, kCardTextMax);
  return released;
}

std::vector<FoundCard> Inventory::offered_cards(const FoundCards& found) const {
  std::vector<FoundCard> offered = found.cards;
  if (dependencies_.apply_profile) apply_profile(offered);
  for (FoundCard& card : offered) {
    // No container could start on it.
    if (card.health == kHealthy && card.nodes.empty()) card.health = "no device node";
    if (card.health == kHealthy && dependencies_.problem_of) {
      const std::string problem = dependencies_.problem_of(card, shared_edits(found));
      if (!problem.empty()) card.health = cut_text(problem, kCardTextMax);
    }
    // A new version of the driver may reserve more.
    const auto known =
        std::ranges::find(known_, card.uuid, [](const auto& entry) { return entry.second.uuid; });
    if (!dependencies_.held || known == known_.end() || card.memory.zero()) continue;
    const Share before = known->second.capacity();
    if (before.fits_in({card.core, card.memory})) continue;
    const Share held = dependencies_.held(card.uuid);
    if (card.memory < before.memory)
      card.memory = std::max(card.memory, std::min(held.memory, before.memory));
    if (card.core < before.core) card.core = std::max(card.core, std::min(held.core, before.core));
  }
  MGPU_DEBUG_CHECK(std::ranges::equal(offered, found.cards, {}, &FoundCard::uuid, &FoundCard::uuid),
                   "all cards that are found are offered, healthy or not");
  return offered;
}

// A card that is new gets the index here that index_cards gives it afterwards.
void Inventory::apply_profile(std::vector<FoundCard>& cards) const {
  const std::vector<std::optional<CardIndex>> requested = [&] {
    std::vector<std::optional<CardIndex>> all;
    for (const FoundCard& card : cards) all.push_back(card.index);
    return all;
  }();
  const IndexedCards indexed = index_cards(known_, cards, dependencies_.now());
  for (FoundCard& card : cards) {
    const auto at = std::ranges::find(indexed.cards, card.uuid, &CardFacts::uuid);
    card.index = at == indexed.cards.end() ? std::nullopt : std::optional(at->index);
  }
  dependencies_.apply_profile(cards);
  for (std::size_t i = 0; i < cards.size(); ++i) cards[i].index = requested[i];
}

void Inventory::read() {
  InventoryState now = state();
  const InventoryState before = now;
  const std::string released = dependencies_.released ? dependencies_.released() : "";
  if (!released.empty()) source_->release();
  auto found = released.empty() ? source_->read() : released_cards(before.found, released);
  if (dependencies_.around_use) dependencies_.around_use();
  auto use = released.empty() ? source_->use() : std::vector<CardUse>();
  if (dependencies_.around_use) dependencies_.around_use();
  auto description = source_->description();
  if (found) {
    IndexedCards indexed =
        index_cards(known_, offered_cards(*found), dependencies_.now(), dependencies_.in_use);
    const bool changed = indexed.known != known_;
    known_ = std::move(indexed.known);
    // A new index is saved before it is published, since it must never be assigned twice.
    if (changed || !saved_) saved_ = dependencies_.save_known(known_);
    CardLinks links = links_of(indexed.cards, *found);
    now = {true, indexed.problems.empty() ? "" : indexed.problems.front(), std::move(indexed.cards),
           std::move(links), std::move(*found)};
    MGPU_DEBUG_CHECK(now.links.empty() || now.links.cards() == now.cards.size(),
                     "links are those of the cards");
  } else {
    now.problem = found.error().message;
  }
  if (now.found.links_problem != before.found.links_problem && !now.found.links_problem.empty())
    log_warn("links between cards", {{"problem", now.found.links_problem}});
  if (now.problem != std::exchange(logged_problem_, now.problem) && !now.problem.empty()) {
    log_warn("the cards cannot be read completely",
             {{"source", description}, {"problem", now.problem}});
  }
  {
    const MutexLock lock(mutex_);
    use_ = std::move(use);
    description_ = std::move(description);
    state_ = now;
    ++reads_;
  }
  if (now != before) dependencies_.on_change(before, now);
  const std::string restart = found || !released.empty() ? "" : source_->needs_restart();
  if (!restart.empty() && dependencies_.on_restart_needed) dependencies_.on_restart_needed(restart);
}

}  // namespace mgpu::plugin
