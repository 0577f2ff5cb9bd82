#include "plugin/agent/exclusive_cards.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

enum class Wanted { kExclusive, kEarlier, kAsItIs };

// The records of containers that have ended stay for a while. Where they disagree, the mode is the
// one that was set before the start of the last container. Containers with parts of several cards
// do not start.
Wanted wanted_mode(const std::vector<Record>& bound, const CardUuid& card) {
  bool parts = false;
  bool others = false;
  for (const Record& record : bound) {
    if (std::ranges::find(record.cards, card, &CardGrant::uuid) == record.cards.end()) continue;
    if (has_parts_of_several_cards(record)) continue;
    (is_part_of_one_card(record) ? parts : others) = true;
  }
  if (parts && others) return Wanted::kAsItIs;
  return parts ? Wanted::kExclusive : Wanted::kEarlier;
}

}  // namespace

std::string ExclusiveCards::problem_of(const CardUuid& card) {
  {
    const MutexLock lock(mutex_);
    const auto problem = problems_.find(card);
    if (problem != problems_.end()) return problem->second;
    if (!enabled_ || settable_.contains(card)) return {};
  }
  if (const auto settable = modes_.check(card); !settable) return settable.error().message;
  const MutexLock lock(mutex_);
  settable_.insert(card);
  return {};
}

Result<void> ExclusiveCards::before_start(const Record& record) {
  const MutexLock lock(changing_);
  const bool is_part = enabled_ && is_part_of_one_card(record);
  if (is_part && released_) {
    return error("the driver is to be released, so that no container with a part of a card starts");
  }
  for (const CardGrant& card : record.cards) {
    auto changed = is_part ? make_exclusive(card.uuid) : modes_.restore(card.uuid);
    if (!changed) return changed;
    note(card.uuid, {});
  }
  return {};
}

Result<void> ExclusiveCards::make_exclusive(const CardUuid& card) {
  const bool was_exclusive = modes_.changed(card);
  const auto set = modes_.make_exclusive(card);
  if (!set) return set.error();
  if (*set && was_exclusive) {
    log_warn("the compute mode was changed outside of mgpu, and is EXCLUSIVE_PROCESS again",
             {{"card", card.str()}});
  }
  return {};
}

void ExclusiveCards::note(const CardUuid& card, const Result<void>& outcome) {
  const std::string problem = outcome ? "" : outcome.error().message;
  const MutexLock lock(mutex_);
  if (problem.empty()) {
    problems_.erase(card);
    return;
  }
  if (std::exchange(problems_[card], problem) == problem) return;
  log_warn("the compute mode of a card cannot be changed",
           {{"card", card.str()}, {"problem", problem}});
}

bool ExclusiveCards::failed(const CardUuid& card) const {
  const MutexLock lock(mutex_);
  return problems_.contains(card);
}

void ExclusiveCards::follow(const Node& node) {
  {
    const MutexLock lock(changing_);
    released_ = node.released;
  }
  if (node.released) return follow_release();
  release_restores_ = 0;
  healthy_.emplace();
  // A call to a card that is not healthy may never return.
  for (const FoundCard& card : node.cards) {
    if (card.health != kHealthy) continue;
    healthy_->insert(card.uuid);
    const MutexLock lock(changing_);
    follow_card(card, records_.bound(), node);
  }
  if (!enabled_) restore_others(node.cards);
}

void ExclusiveCards::follow_card(const FoundCard& card, const std::vector<Record>& bound,
                                 const Node& node) {
  const bool changed = modes_.changed(card.uuid);
  const Wanted wanted = enabled_ ? wanted_mode(bound, card.uuid) : Wanted::kEarlier;
  if (wanted == Wanted::kEarlier) return note(card.uuid, modes_.restore(card.uuid));
  const bool is_set = changed && card.compute_mode == nvml::kComputeModeExclusiveProcess;
  // A change that was reported as failed may have succeeded since.
  if (is_set || (wanted == Wanted::kAsItIs && !changed)) return note(card.uuid, {});
  if (!node.daemon_responds(card.uuid)) return;
  note(card.uuid, make_exclusive(card.uuid));
  // The process that has ended the daemon meanwhile may have restored the mode before.
  if (!node.daemon_responds(card.uuid)) note(card.uuid, modes_.restore(card.uuid));
}

// During a release all cards are reported as not healthy.
void ExclusiveCards::follow_release() {
  if (release_restores_ == kReleaseRestoresMax) return;
  ++release_restores_;
  for (const CardUuid& card : modes_.all_changed()) {
    if (healthy_ && !healthy_->contains(card)) continue;
    const MutexLock lock(changing_);
    note(card, modes_.restore(card));
  }
}

// Tried once for each card. Cards that are not found may have been changed by an earlier process.
void ExclusiveCards::restore_others(const std::vector<FoundCard>& found) {
  for (const CardUuid& card : modes_.all_changed()) {
    if (std::ranges::find(found, card, &FoundCard::uuid) != found.end() || failed(card)) continue;
    const MutexLock lock(changing_);
    note(card, modes_.restore(card));
  }
}

std::map<CardUuid, bool> ExclusiveCards::exclusive(const std::vector<FoundCard>& cards) const {
  std::map<CardUuid, bool> exclusive;
  if (!enabled_) return exclusive;
  for (const FoundCard& card : cards) {
    const bool is_set = card.compute_mode ? *card.compute_mode == nvml::kComputeModeExclusiveProcess
                                          : !failed(card.uuid);
    exclusive[card.uuid] = is_set && modes_.changed(card.uuid);
  }
  return exclusive;
}

}  // namespace mgpu::plugin
