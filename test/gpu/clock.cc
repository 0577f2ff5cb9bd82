// Virtual time: what happens on the cards until the next moment at which a process that waits goes
// on. A card serves processes with kernels in turn; all clients of MPS have one turn together.
// Within a turn kernels get their width in the order in which they have begun, and a later one what
// is left. Nothing depends on which of two processes is faster in real time.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <tuple>

#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kTurnOfMps = kProcessesMax;
// Nobody says that a process was killed for which the clock waits.
constexpr timespec kLookAgain{.tv_sec = 0, .tv_nsec = 5'000'000};

using Processes = std::vector<ProcessState*>;

struct Running {
  KernelState* kernel = nullptr;
  const ProcessState* process = nullptr;
  std::uint64_t turn = 0;
  std::uint64_t part = 0;  // of the width of the card that it has
};

bool runs(const ProcessState& process, int kernel) {
  return ((process.running >> kernel) & 1) != 0;
}

// In the order in which they have begun.
std::vector<Running> running_of(const MachineState& state, const Processes& processes) {
  std::vector<Running> found;
  for (ProcessState* const process : processes) {
    const auto slot = static_cast<std::uint64_t>(process - state.processes);
    for (int i = 0; i < kRunningMax; ++i) {
      if (!runs(*process, i)) continue;
      found.push_back({.kernel = &process->kernels[i],
                       .process = process,
                       .turn = process->is_mps_client != 0 ? kTurnOfMps : slot});
    }
  }
  std::ranges::sort(found, {}, [](const Running& one) {
    return std::tuple(one.kernel->began.load(), one.process, one.kernel->order.load());
  });
  return found;
}

// Ends a turn that is over. Slices of a process alone follow each other. Returns when the turn that
// is now ends, if others have kernels.
std::uint64_t choose_turn(CardState& card, std::uint64_t clock, const std::vector<Running>& mine) {
  std::uint64_t first = kNever;
  std::uint64_t next = kNever;
  bool has_kernels = false;
  bool has_others = false;
  for (const Running& one : mine) {
    first = std::min(first, one.turn);
    if (one.turn > card.turn) next = std::min(next, one.turn);
    has_kernels |= one.turn == card.turn;
    has_others |= one.turn != mine.front().turn;
  }
  if (has_kernels && clock > card.turn_ends) {
    const std::uint64_t slices = (clock - card.turn_ends) / kSliceNanoseconds + 1;
    card.turn_ends = card.turn_ends + slices * kSliceNanoseconds;
  }
  if (!has_kernels || clock == card.turn_ends) {
    card.turn_ends = clock + kSliceNanoseconds;
    card.turn = next != kNever ? next : first;
  }
  return has_others ? card.turn_ends.load() : kNever;
}

// Gives the kernels of one card their parts of it. Returns when that changes.
std::uint64_t share_card(CardState& card, std::uint64_t clock, std::size_t now,
                         std::vector<Running>& mine) {
  if (mine.empty()) return kNever;
  std::uint64_t change = choose_turn(card, clock, mine);
  std::uint64_t free = kWholeWidth;
  for (Running& one : mine) {
    if (one.turn != card.turn) continue;
    std::uint64_t of_process = one.process->width;
    for (const Running& other : mine) {
      if (other.process == one.process) of_process -= other.part;
    }
    const std::uint64_t width = one.kernel->width;
    one.part = std::min({width, free, of_process});
    free -= one.part;
    if (one.part == 0) continue;
    change = std::min(change, clock + (one.kernel->left[now] * width + one.part - 1) / one.part);
  }
  return change;
}

// Counts the time until `next`, in which the card or process had kernels all of the time or never.
void count_busy(BusyState (&busy)[2], bool is_busy, const MachineState& state, std::uint64_t next) {
  const BusyState& now = busy[state.step % 2];
  BusyState& then = busy[1 - state.step % 2];
  const std::uint64_t clock = state.clock[state.step % 2];
  const auto until = [&](std::uint64_t time) { return now.all + (is_busy ? time - clock : 0); };
  then.all = until(next);
  then.before = now.before.load();
  then.percent = now.percent.load();
  const std::uint64_t end = next / kSampleNanoseconds * kSampleNanoseconds;
  if (end <= clock) return;
  const std::uint64_t begin = end - kSampleNanoseconds;
  const std::uint64_t before = begin > clock ? until(begin) : now.before.load();
  then.before = until(end);
  then.percent = (then.before - before) * 100 / kSampleNanoseconds;
}

void count_busy(MachineState& state, std::size_t card, const std::vector<Running>& running,
                const Processes& processes, std::uint64_t next) {
  const auto runs_for = [&](const ProcessState* process) {
    return std::ranges::any_of(running, [&](const Running& one) {
      return one.part > 0 && (process == nullptr || one.process == process);
    });
  };
  count_busy(state.cards[card].busy, runs_for(nullptr), state, next);
  for (ProcessState* const process : processes) {
    count_busy(process->busy[card], runs_for(process), state, next);
  }
}

// Moves the clock to the next moment at which something changes; false if nothing ever does.
bool pass(MachineState& state, const Processes& processes) {
  const std::size_t now = state.step % 2;
  const std::size_t then = 1 - now;
  const std::uint64_t clock = state.clock[now];
  std::uint64_t next = kNever;
  for (const ProcessState* const one : processes) next = std::min(next, one->wakes_at.load());
  std::vector<std::vector<Running>> cards(static_cast<std::size_t>(state.device_count));
  for (const Running& one : running_of(state, processes)) cards[one.kernel->card].push_back(one);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    next = std::min(next, share_card(state.cards[i], clock, now, cards[i]));
  }
  if (next == kNever) return false;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    count_busy(state, i, cards[i], processes, next);
    for (const Running& one : cards[i]) {
      const std::uint64_t left = one.kernel->left[now];
      const std::uint64_t done = (next - clock) * one.part / one.kernel->width;
      one.kernel->left[then] = left - std::min(left, done);
    }
  }
  state.clock[then] = next;
  ++state.step;  // from here on all of it counts
  return true;
}

}  // namespace

int Machine::begin_kernel(int card, std::int64_t duration, int width, int limit) {
  const Lock lock(*this);
  ProcessState& mine = state_->processes[slot_];
  const int number = std::countr_one(mine.running.load());
  if (number >= kRunningMax) return -1;
  KernelState& kernel = mine.kernels[number];
  kernel.began = static_cast<std::uint64_t>(clock());
  kernel.order = ++state_->last_order;
  kernel.card = static_cast<std::uint64_t>(order_[card]);
  kernel.width = static_cast<std::uint64_t>(width);
  kernel.left[0] = kernel.left[1] = static_cast<std::uint64_t>(duration);
  mine.width = static_cast<std::uint64_t>(limit);
  mine.uses_time = 1;
  mine.running |= std::uint64_t{1} << number;
  return number;
}

std::vector<int> Machine::take_ended() {
  const Lock lock(*this);
  ProcessState& mine = state_->processes[slot_];
  std::vector<int> ended;
  for (int i = 0; i < kRunningMax; ++i) {
    if (runs(mine, i) && mine.kernels[i].left[state_->step % 2] == 0) ended.push_back(i);
  }
  for (const int i : ended) mine.running &= ~(std::uint64_t{1} << i);
  return ended;
}

// Whether the clock must wait for it.
bool Machine::is_due(const ProcessState& process) const {
  const std::size_t now = state_->step % 2;
  bool is_due = process.waiting == 0 || process.wakes_at <= state_->clock[now];
  for (int i = 0; i < kRunningMax && !is_due; ++i) {
    is_due = runs(process, i) && process.kernels[i].left[now] == 0;
  }
  return is_due;
}

void Machine::let_time_pass() {
  Processes processes;
  for (ProcessState& process : state_->processes) {
    if (process.used != 0 && process.uses_time != 0) processes.push_back(&process);
  }
  if (processes.size() >= state_->processes_at_begin) state_->has_begun = 1;
  if (state_->has_begun == 0) return;
  const auto due = [this](const ProcessState* process) { return is_due(*process); };
  while (std::ranges::none_of(processes, due) && pass(*state_, processes)) {
  }
  for (ProcessState* const process : processes) {
    if (process->waiting == 0 || !is_due(*process)) continue;
    ++process->wake;
    ::syscall(SYS_futex, &process->wake, FUTEX_WAKE, kProcessesMax, nullptr, nullptr, 0);
  }
}

void Machine::wait(std::int64_t until) {
  ProcessState& mine = state_->processes[slot_];
  const auto at = static_cast<std::uint64_t>(until);
  std::uint32_t seen = 0;
  {
    const Lock lock(*this);
    if (mine.waiting == 0 || at < mine.wakes_at) mine.wakes_at = at;
    ++mine.waiting;
    mine.uses_time = 1;
    let_time_pass();
    seen = mine.wake;
    if (is_due(mine)) {
      --mine.waiting;
      return;
    }
  }
  ::syscall(SYS_futex, &mine.wake, FUTEX_WAIT, seen, &kLookAgain, nullptr, 0);
  const Lock lock(*this);
  --mine.waiting;
}

}  // namespace mgpu::fake_gpu
