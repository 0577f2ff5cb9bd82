#include "test/plugin/turns/turn_gate.h"

namespace mgpu::plugin::model {
namespace {

// A thread looks at marks so often, and one look in a hundred is late because it has no processor.
constexpr Time kPoll = 50 * kMicrosecond;
constexpr double kLate = 0.01;
constexpr Time kLateBy = 500 * kMicrosecond;
constexpr Time kUnmarked = 200 * kMicrosecond;
constexpr Time kWake = 20 * kMicrosecond;
constexpr Time kJitter = 20 * kMicrosecond;

}  // namespace

TurnGate::TurnGate(TurnRule rule, const std::vector<double>& shares)
    : turns_(TurnOptions{.rule = rule}), containers_(shares.size()) {
  for (std::size_t i = 0; i < shares.size(); ++i) turns_.add(i, shares[i]);
}

void TurnGate::begin(Card& card) {
  card_ = &card;
  look();
}

bool TurnGate::works(const Container& container) {
  return container.launched != container.finished;
}

void TurnGate::look() {
  std::map<CardTurns::Id, CardActivity> activity;
  for (std::size_t i = 0; i < containers_.size(); ++i) {
    Container& container = containers_[i];
    const bool changed = container.all != container.seen;
    container.seen = container.all;
    activity[i] = {
        .worked = changed || works(container), .works = works(container), .waits = container.waits};
  }
  const CardTurns::Look look = turns_.look(Nanoseconds(card_->now()), activity);
  for (const auto& [id, turn] : look.turns) {
    Container& container = containers_[id];
    const bool begins = container.turn == Turn::kWait && turn != Turn::kWait;
    container.turn = turn;
    if (!begins) continue;
    container.waits = false;
    card_->wake(id, kWake + card_->random().jitter(kJitter));
  }
  card_->at(card_->now() + look.next.count() + card_->random().jitter(kJitter),
            [this] { this->look(); });
}

bool TurnGate::may_launch(std::size_t who, int /*stream*/) {
  Container& container = containers_[who];
  const bool turn = container.turn != Turn::kWait;
  if (turn && container.window.may_launch(container.turn == Turn::kAlone)) return true;
  container.waits = !turn;
  container.window_full = turn;
  waits(who);
  return false;
}

void TurnGate::launched(std::size_t who, int stream, const Kernel& /*kernel*/) {
  Container& container = containers_[who];
  const auto of = static_cast<std::size_t>(stream);
  if (container.launched[of] == container.marked[of]) {
    card_->at(card_->now() + kUnmarked, [this, who, stream] { put_mark(who, stream); });
  }
  ++container.all;
  ++container.launched[of];
  container.window.launched(static_cast<std::uint64_t>(card_->now()));
  if (container.launched[of] - container.marked[of] >= container.window.mark_every()) {
    put_mark(who, stream);
  }
}

void TurnGate::put_mark(std::size_t who, int stream) {
  Container& container = containers_[who];
  const auto of = static_cast<std::size_t>(stream);
  if (container.marked[of] == container.launched[of]) return;
  container.marked[of] = container.launched[of];
  card_->mark(who, stream, container.launched[of]);
}

void TurnGate::waits(std::size_t who) {
  for (int stream = 0; stream < kStreams; ++stream) put_mark(who, stream);
}

void TurnGate::has_waited(std::size_t who) {
  for (int stream = 0; stream < kStreams; ++stream) {
    finish(who, stream, containers_[who].launched[static_cast<std::size_t>(stream)]);
  }
}

void TurnGate::reached(std::size_t who, int stream, std::uint64_t mark) {
  Container& container = containers_[who];
  if (container.polled <= card_->now()) {
    Random& random = card_->random();
    const bool late = random.between(0, 1) < kLate;
    container.polled = (card_->now() / kPoll + 1) * kPoll + (late ? random.jitter(kLateBy) : 0);
  }
  card_->at(container.polled, [this, who, stream, mark] { finish(who, stream, mark); });
}

void TurnGate::finish(std::size_t who, int stream, std::uint64_t upto) {
  Container& container = containers_[who];
  const auto of = static_cast<std::size_t>(stream);
  if (upto <= container.finished[of]) return;
  container.window.finished(upto - container.finished[of],
                            static_cast<std::uint64_t>(card_->now()));
  container.finished[of] = upto;
  if (!container.window_full) return;
  container.window_full = false;
  if (container.turn != Turn::kWait) {
    card_->wake(who, 2 * kMicrosecond);
  } else if (card_->is_stopped(who)) {
    container.waits = true;
  }
}

}  // namespace mgpu::plugin::model
