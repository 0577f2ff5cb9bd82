#include "plugin/turns/turns.h"

#include <algorithm>
#include <limits>

namespace mgpu::plugin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

double count(Nanoseconds time) {
  return static_cast<double>(time.count());
}

}  // namespace

void CardTurns::add(Id id, double share) {
  const double saved = share * count(settings_.saved) / 2;
  containers_.emplace(id, Container{.share = share, .virtual_time = virtual_now_, .saved = saved});
}

void CardTurns::remove(Id id) {
  containers_.erase(id);
  if (holder_ == id) held_ = false;
}

// Since the last look.
bool CardTurns::had_card(Id id, const Container& container) const {
  const bool holds = held_ && id == holder_;
  const bool lingers = holds && last_ - container.worked < settings_.linger;
  return container.now.worked || lingers || (holds && container.now.waits);
}

// Charges the time since the last look to the holder if it had work on the card, and to others that
// had some in equal parts: whoever says so for nothing takes nothing off the holder.
void CardTurns::account(Nanoseconds now) {
  // A look that comes very late says little.
  const double passed =
      looked_ ? count(std::min(now - last_, Nanoseconds(settings_.saved_waiting))) : 0;
  looked_ = true;
  const auto users = std::ranges::count_if(
      containers_, [&](const auto& item) { return had_card(item.first, item.second); });
  for (auto& [id, container] : containers_) {
    const bool uses = had_card(id, container);
    const bool holds = held_ && id == holder_;
    double used = uses ? passed / static_cast<double>(holds ? 1 : users) : 0;
    // Looks are seldom where little happens.
    if (!container.worked_all && !container.now.waits) {
      used = std::min(used, count(settings_.linger));
    }
    container.virtual_time += used / container.share;
    const double most =
        container.share * count(container.now.waits ? settings_.saved_waiting : settings_.saved);
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
        std::clamp(container.virtual_time, virtual_now_ - count(settings_.credit),
                   virtual_now_ + count(settings_.debt) / container.share);
    container.active = container.now.works || container.now.waits || (held_ && id == holder_);
  }
}

bool CardTurns::may_begin(const Container& container) const {
  if (settings_.rule == TurnRule::kBurst) return true;
  return container.saved >=
         std::min(count(settings_.begin), container.share * count(settings_.saved) / 2);
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

void CardTurns::consider_revoking(Nanoseconds now, const std::pair<const Id, Container>* waiter) {
  const Container& holder = containers_.at(holder_);
  const bool poor = settings_.rule == TurnRule::kFixed && holder.saved <= 0;
  bool idle = false;
  bool had_turn = false;
  if (waiter != nullptr) {
    const Container& other = waiter->second;
    idle = !holder.now.works &&
           now - holder.worked >= (holder.now.waits ? settings_.wake : settings_.linger);
    had_turn = other.virtual_time < holder.virtual_time &&
               now - granted_ >= (other.fresh ? settings_.short_quantum : settings_.quantum);
  }
  if (!poor && !idle && !had_turn) return;
  revoked_ = true;
  went_idle_ = idle && !poor && !holder.now.waits;
  revoked_at_ = now;
}

void CardTurns::grant(Nanoseconds now, Id id) {
  held_ = true;
  revoked_ = false;
  holder_ = id;
  granted_ = now;
  containers_.at(id).worked = now;
}

CardTurns::Look CardTurns::look(Nanoseconds now, const std::map<Id, CardActivity>& activity) {
  for (auto& [id, container] : containers_) {
    const auto said = activity.find(id);
    const bool worked = container.now.works;
    container.now = said != activity.end() ? said->second : CardActivity{};
    container.now.worked = container.now.worked || worked;
    container.worked_all = worked || container.now.works;
  }
  account(now);
  for (auto& [id, container] : containers_) {
    if (container.now.worked) container.worked = now;
  }
  limit_virtual_time();
  const auto* waiter = next_waiter();
  if (held_ && !revoked_) consider_revoking(now, waiter);
  if (held_ && revoked_) {
    Container& holder = containers_.at(holder_);
    // What was seen before it was told says nothing.
    const bool seen = now > revoked_at_;
    const bool ends = seen && (!holder.now.works || now - revoked_at_ >= settings_.drain);
    if (ends) holder.fresh = went_idle_;
    if (ends) held_ = false;
  }
  if (!held_) {
    waiter = next_waiter();
    if (waiter != nullptr) grant(now, waiter->first);
  }
  Look answer;
  for (const auto& [id, container] : containers_) answer.turns.emplace(id, turn_of(now, id));
  answer.next = until_next();
  return answer;
}

Turn CardTurns::turn_of(Nanoseconds now, Id id) const {
  if (!held_ || revoked_ || holder_ != id) return Turn::kWait;
  if (settings_.rule == TurnRule::kFixed) return Turn::kRun;
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
  const bool counted = settings_.rule == TurnRule::kFixed && held_;
  return counted && containers_.at(holder_).now.works ? microseconds(100) : milliseconds(1);
}

}  // namespace mgpu::plugin
