#include "extender/verbs/held_refusals.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "extender/verbs/call_gate.h"

namespace mgpu::verbs {

struct HeldRefusals::State : std::enable_shared_from_this<State> {
  struct Held {
    PodUid uid;
    Instant since;
    Instant until;
    Decide decide;
  };

  explicit State(Executor& its_executor)
      : executor(its_executor), refilled(its_executor.now()), last_release(refilled) {}

  // REQUIRES: mutex is held, here and in the next three.
  bool allowed(Instant now);
  Instant end_of_hold(const PodUid& uid, Instant now) const;
  void remember(const PodUid& uid);
  std::optional<Held> take(std::uint64_t id);

  void arm(std::uint64_t id, Duration delay);
  void on_timer(std::uint64_t id);
  void decide_again(std::uint64_t id);
  void answer(Held held);

  Executor& executor;
  CallGate gate;
  std::mutex mutex;
  // Below: protected by mutex.
  std::uint64_t releases = 0;
  std::uint64_t next_id = 0;
  std::map<std::uint64_t, Held> held;
  std::unordered_map<PodUid, std::uint64_t> refused_at;  // releases at a pod's last refusal
  Duration allowance = limits::kRefusalHoldAllowance;
  Instant refilled;
  Instant last_release;
};

bool HeldRefusals::State::allowed(Instant now) {
  const Duration earned = (now - refilled) * limits::kRefusalHoldPercent / 100;
  if (earned > Duration(0)) {
    allowance = std::min(allowance + earned, limits::kRefusalHoldAllowance);
    refilled = now;
  }
  return allowance > Duration(0) && held.size() < limits::kRefusalsHeldMax;
}

Instant HeldRefusals::State::end_of_hold(const PodUid& uid, Instant now) const {
  const auto before = refused_at.find(uid);
  const bool explained = before != refused_at.end() && before->second != releases;
  // Releases come in groups: the one that matters may be right behind the one that was seen.
  return (explained ? last_release : now) + limits::kRefusalHold;
}

void HeldRefusals::State::remember(const PodUid& uid) {
  if (refused_at.size() >= limits::kRefusalsRememberedMax) refused_at.clear();
  refused_at[uid] = releases;
}

std::optional<HeldRefusals::State::Held> HeldRefusals::State::take(std::uint64_t id) {
  const auto found = held.find(id);
  if (found == held.end()) return std::nullopt;
  Held taken = std::move(found->second);
  held.erase(found);
  return taken;
}

void HeldRefusals::State::arm(std::uint64_t id, Duration delay) {
  executor.after(delay,
                 [self = shared_from_this(), id] { self->gate.run([&] { self->on_timer(id); }); });
}

void HeldRefusals::State::on_timer(std::uint64_t id) {
  std::optional<Held> due;
  {
    const std::lock_guard lock(mutex);
    const auto found = held.find(id);
    if (found == held.end()) return;
    const Instant now = executor.now();
    if (found->second.until > now) return arm(id, found->second.until - now);
    due = take(id);
  }
  answer(std::move(*due));
}

void HeldRefusals::State::answer(Held due) {
  due.decide(true);
  const std::lock_guard lock(mutex);
  remember(due.uid);
  allowance -= executor.now() - due.since;
}

void HeldRefusals::State::decide_again(std::uint64_t id) {
  std::optional<Held> again;
  {
    const std::lock_guard lock(mutex);
    again = take(id);
  }
  if (!again) return;
  const bool answered = again->decide(false);
  const std::lock_guard lock(mutex);
  if (answered) {
    allowance -= executor.now() - again->since;
    return;
  }
  again->until =
      std::min(again->since + limits::kRefusalHoldMax, executor.now() + limits::kRefusalHold);
  held.emplace(id, std::move(*again));  // its timer is still running
}

HeldRefusals::HeldRefusals(Executor& executor) : state_(std::make_shared<State>(executor)) {}

HeldRefusals::~HeldRefusals() {
  state_->gate.close();
}

std::uint64_t HeldRefusals::releases() const {
  const std::lock_guard lock(state_->mutex);
  return state_->releases;
}

bool HeldRefusals::hold(const PodUid& uid, std::uint64_t releases_before, Decide decide) {
  const Instant now = state_->executor.now();
  const std::lock_guard lock(state_->mutex);
  const Instant until = state_->end_of_hold(uid, now);
  if (until <= now || !state_->allowed(now)) {
    state_->remember(uid);
    return false;
  }
  const std::uint64_t id = state_->next_id++;
  state_->held.emplace(id, State::Held{uid, now, until, std::move(decide)});
  state_->arm(id, until - now);
  if (state_->releases != releases_before)
    state_->executor.post(
        [state = state_, id] { state->gate.run([&] { state->decide_again(id); }); });
  return true;
}

void HeldRefusals::observe(std::uint64_t releases) {
  std::vector<std::uint64_t> ids;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->releases == releases) return;
    state_->releases = releases;
    state_->last_release = state_->executor.now();
    for (const auto& [id, held] : state_->held) ids.push_back(id);
  }
  for (const std::uint64_t id : ids) state_->decide_again(id);
}

}  // namespace mgpu::verbs
