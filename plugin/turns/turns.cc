#include "plugin/turns/turns.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace mgpu::plugin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

double count(Nanoseconds time) {
  return static_cast<double>(time.count());
}

// Falls at once and rises in steps: to lend the card for too short a time costs more than to keep
// it.
void learn_gap(Nanoseconds& gap, Nanoseconds seen) {
  MGPU_DEBUG_CHECK(seen >= Nanoseconds{}, "no gap ends before it begins");
  seen = std::min(seen, Nanoseconds(milliseconds(100)));
  gap = gap == Nanoseconds{} || seen < gap ? seen : (gap + seen) / 2;
}

void learn_drain(Nanoseconds& drain, Nanoseconds seen) {
  MGPU_DEBUG_CHECK(seen >= Nanoseconds{}, "no work ends before its turn does");
  drain = drain == Nanoseconds{} ? seen : (3 * drain + seen) / 4;
}

}  // namespace

void CardTurns::add(Id id, double share) {
  MGPU_DEBUG_CHECK(share > 0 && share <= 1, "a share is a part of the card, or all of it");
  MGPU_DEBUG_CHECK(!containers_.contains(id), "a container is added once");
  const double saved = share * count(options_.saved) / 2;
  containers_.emplace(id, Container{.share = share, .virtual_time = virtual_now_, .saved = saved});
}

void CardTurns::remove(Id id) {
  containers_.erase(id);
  if (holder_ == id) held_ = false;
}

void CardTurns::apply(Nanoseconds now, const std::map<Id, CardActivity>& activity) {
  for (auto& [id, container] : containers_) {
    const bool worked = container.now.works;
    const bool idle = !worked && !container.now.waits;
    const auto said = activity.find(id);
    container.now = said != activity.end() ? said->second : CardActivity{};
    container.now.worked = container.now.worked || worked;
    container.worked_all = worked || container.now.works;
    // The time from the grant to the first work is no gap, nor the time before all work.
    const bool begins = held_ && id == holder_ && container.worked == granted_;
    const bool goes_on = idle && (container.now.worked || container.now.waits);
    if (goes_on && !begins && container.worked != Nanoseconds{}) {
      learn_gap(container.usual_gap, now - container.worked);
    }
  }
}

// Since the last look.
bool CardTurns::had_card(Id id, const Container& container) const {
  const bool holds = held_ && id == holder_;
  const bool in_grace = holds && last_ - container.worked < grace_;
  return container.now.worked || in_grace || (holds && container.now.waits);
}

// Takes the change of turns off what the holder has used.
double CardTurns::without_change(double used) {
  const double free = std::min(used / 10, change_left_);
  change_left_ -= free;
  MGPU_DEBUG_CHECK(change_left_ >= 0, "no more is taken off than the change of turns");
  return used - free;
}

// Charges the time since the last look to the holder if it had work on the card, and to others that
// had some in equal parts: whoever says so for nothing takes nothing off the holder.
void CardTurns::account(Nanoseconds now) {
  // A look that comes very late says little.
  const double passed =
      looked_ ? count(std::min(now - last_, Nanoseconds(options_.saved_waiting))) : 0;
  looked_ = true;
  const auto users = std::ranges::count_if(
      containers_, [&](const auto& item) { return had_card(item.first, item.second); });
  for (auto& [id, container] : containers_) {
    const bool uses = had_card(id, container);
    const bool holds = held_ && id == holder_;
    double used = uses ? passed / static_cast<double>(holds ? 1 : users) : 0;
    // Looks are rare if little happens.
    if (!container.worked_all && !container.now.waits) {
      used = std::min(used, count(options_.grace));
    }
    if (holds) used = without_change(used);
    container.virtual_time += used / container.share;
    const double most =
        container.share * count(container.now.waits ? options_.saved_waiting : options_.saved);
    const double saved = container.saved + container.share * passed;
    container.saved = std::min(saved, std::max(most, container.saved)) - used;
  }
  last_ = now;
}

// A container that was idle does not get all that it has left unused: the others would wait for
// long. And none is ahead by so much that it does not get the card again.
void CardTurns::limit_virtual_time() {
  double least = std::numeric_limits<double>::max();
  for (const auto& [id, container] : containers_) {
    if (container.active) least = std::min(least, container.virtual_time);
  }
  if (least < std::numeric_limits<double>::max()) virtual_now_ = std::max(virtual_now_, least);
  for (auto& [id, container] : containers_) {
    container.virtual_time =
        std::clamp(container.virtual_time, virtual_now_ - count(options_.credit),
                   virtual_now_ + count(options_.debt) / container.share);
    container.active = container.now.works || container.now.waits || (held_ && id == holder_);
  }
}

bool CardTurns::may_begin(const Container& container) const {
  if (options_.rule == TurnRule::kBurst) return true;
  return container.saved >=
         std::min(count(options_.begin), container.share * count(options_.saved) / 2);
}

const std::pair<const CardTurns::Id, CardTurns::Container>* CardTurns::next_waiter() const {
  const std::pair<const Id, Container>* best = nullptr;
  for (const auto& item : containers_) {
    const auto& [id, container] = item;
    if (!container.now.waits || (held_ && id == holder_) || !may_begin(container)) continue;
    if (best == nullptr || container.virtual_time < best->second.virtual_time) best = &item;
  }
  return best;
}

// How long the holder may do nothing while `other` waits.
Nanoseconds CardTurns::grace_for(const Container& holder, const Container& other) const {
  if (holder.now.waits) return options_.wake;
  if (holder.worked == granted_) return options_.grace;  // it is about to begin
  const Nanoseconds gap = holder.usual_gap;
  const Nanoseconds usual = gap > 2 * options_.grace ? Nanoseconds{} : options_.grace;
  const Nanoseconds whole = gap * 3 / 2;
  const bool behind = holder.virtual_time < other.virtual_time;
  const Nanoseconds most = std::max(options_.keep, other.usual_drain / 4);
  if (!behind || whole > most || 4 * gap > other.usual_drain) return usual;
  return std::max(usual, whole);
}

// Returns how long a turn lasts until it is revoked: what is queued then takes its time.
Nanoseconds CardTurns::quantum_of(const Container& holder) const {
  return std::max(options_.quantum - holder.usual_drain, options_.short_quantum);
}

void CardTurns::consider_revoking(Nanoseconds now, const std::pair<const Id, Container>* waiter) {
  MGPU_DEBUG_CHECK(held_ && !revoked_, "a turn is revoked once");
  const Container& holder = containers_.at(holder_);
  const bool used_up = options_.rule == TurnRule::kFixed && holder.saved <= 0;
  bool idle = false;
  bool had_turn = false;
  grace_ = options_.grace;
  if (waiter != nullptr) {
    const Container& other = waiter->second;
    grace_ = grace_for(holder, other);
    idle = !holder.now.works && now - holder.worked >= grace_;
    had_turn = other.virtual_time < holder.virtual_time &&
               now - granted_ >= (other.fresh ? options_.short_quantum : quantum_of(holder));
  }
  if (!used_up && !idle && !had_turn) return;
  revoked_ = true;
  went_idle_ = idle && !used_up && !holder.now.waits;
  revoked_at_ = now;
}

// Ends the turn if the holder has finished, or does not within a long time.
void CardTurns::end_turn(Nanoseconds now) {
  MGPU_DEBUG_CHECK(held_ && revoked_, "a turn ends after it was revoked");
  Container& holder = containers_.at(holder_);
  // Reports from before the revocation say nothing about its end.
  if (now <= revoked_at_) return;
  if (holder.now.works && now - revoked_at_ < options_.drain) return;
  // One that went idle may have gone on.
  if (!went_idle_ || holder.worked > revoked_at_) {
    learn_drain(holder.usual_drain, std::min(now - revoked_at_, options_.drain));
  }
  holder.fresh = went_idle_;
  held_ = false;
}

void CardTurns::grant(Nanoseconds now, Id id) {
  MGPU_DEBUG_CHECK(!held_, "one container at a time has the card");
  if (holder_ != id) change_left_ = count(options_.change);
  grace_ = options_.grace;
  held_ = true;
  revoked_ = false;
  holder_ = id;
  granted_ = now;
  containers_.at(id).worked = now;
}

CardTurns::Look CardTurns::look(Nanoseconds now, const std::map<Id, CardActivity>& activity) {
  MGPU_DEBUG_CHECK(!looked_ || now >= last_, "the time of a look does not go back");
  MGPU_DEBUG_CHECK(!held_ || containers_.contains(holder_), "the holder is one of the containers");
  apply(now, activity);
  account(now);
  for (auto& [id, container] : containers_) {
    if (container.now.worked) container.worked = now;
  }
  limit_virtual_time();
  const auto* waiter = next_waiter();
  if (held_ && !revoked_) consider_revoking(now, waiter);
  if (held_ && revoked_) end_turn(now);
  if (!held_) {
    waiter = next_waiter();
    if (waiter != nullptr) grant(now, waiter->first);
  }
  Look answer;
  for (const auto& [id, container] : containers_) answer.turns.emplace(id, turn_of(now, id));
  MGPU_DEBUG_CHECK(
      std::ranges::count_if(answer.turns,
                            [](const auto& item) { return item.second != Turn::kWait; }) <= 1,
      "at most one container may have work on the card");
  answer.next = until_next();
  return answer;
}

Turn CardTurns::turn_of(Nanoseconds now, Id id) const {
  if (!held_ || revoked_ || holder_ != id) return Turn::kWait;
  if (options_.rule == TurnRule::kFixed) return Turn::kRun;
  for (const auto& [other, container] : containers_) {
    if (other != id && (container.active || now - container.worked < milliseconds(20))) {
      return Turn::kRun;
    }
  }
  return Turn::kAlone;
}

// A turn that ends is looked at most often: until the next one begins, nobody uses the card.
Nanoseconds CardTurns::until_next() const {
  const bool others = std::ranges::any_of(containers_, [&](const auto& item) {
    return item.second.active && !(held_ && item.first == holder_);
  });
  if (others) return microseconds(held_ && !revoked_ ? 100 : 50);
  const bool counted = options_.rule == TurnRule::kFixed && held_;
  return counted && containers_.at(holder_).now.works ? microseconds(100) : milliseconds(1);
}

}  // namespace mgpu::plugin
