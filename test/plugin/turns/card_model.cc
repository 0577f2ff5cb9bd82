#include "test/plugin/turns/card_model.h"

#include <algorithm>
#include <cmath>

namespace mgpu::plugin::model {
namespace {

constexpr Time kSlice = 2 * kMillisecond;
constexpr Time kSwitch = 150 * kMicrosecond;
constexpr Time kLaunchDelay = 4 * kMicrosecond;
constexpr Time kLaunchCost = 2'500;
constexpr Time kWaitDelay = 6 * kMicrosecond;
constexpr int kQueuedMax = 1'024;
constexpr Time kShortGap = 200 * kMicrosecond;
constexpr double kVariation = 0.05;  // of a kernel's duration

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

double Random::between(double low, double high) {
  return low + (high - low) * static_cast<double>(next() >> 11U) * 0x1.0p-53;
}

Time Random::jitter(Time mean) {
  return static_cast<Time>(-static_cast<double>(mean) * std::log(1 - between(0, 1)));
}

double Random::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += between(0, 1);
  return sum;
}

// --- programs ------------------------------------------------------------------------------------

void Card::add(const Program& program, std::uint64_t seed) {
  programs_.push_back({.program = program, .random = Random(seed)});
}

bool Card::is_on(std::size_t who, Time time) const {
  const Program& program = programs_[who].program;
  return program.on == 0 || time % (program.on + program.off) < program.on;
}

Card::Step Card::next_step(Running& running) const {
  const Program& program = running.program;
  if (program.on > 0) {
    const Time phase = now_ % (program.on + program.off);
    if (phase >= program.on) return {Next::kCompute, program.on + program.off - phase};
  }
  if (program.kind == Kind::kFlood) {
    const int step = running.step++;
    const bool waits =
        program.wait_every > 0 && step % (program.wait_every + 1) == program.wait_every;
    return {waits ? Next::kWait : Next::kLaunch, 0, step % program.streams};
  }
  const int step = running.step++ % (program.burst + 2);
  if (program.kind == Kind::kLoop) {
    if (step < program.burst) return {Next::kLaunch, 0, step % program.streams};
    if (step == program.burst) return {Next::kWait};
    const auto gap = static_cast<double>(program.gap);
    return {Next::kCompute, static_cast<Time>(gap * running.random.between(0.8, 1.2))};
  }
  if (step == 0) {
    if (running.request < 0) running.request = now_;
    running.request += running.random.jitter(static_cast<Time>(kSecond / program.rate));
    return {Next::kCompute, std::max<Time>(0, running.request - now_)};
  }
  return {step <= program.burst ? Next::kLaunch : Next::kWait};
}

void Card::advance(std::size_t who) {
  Running& running = programs_[who];
  if (running.state == State::kWaits) {
    if (!running.wait_ends) return;
    running.wait_ends = false;
    running.state = State::kRuns;
    gate_->has_waited(who);
  }
  if (running.state != State::kRuns) return;
  const int step_before = running.step;
  const Step step = next_step(running);
  if (step.next == Next::kCompute) return at(now_ + step.time, [this, who] { advance(who); });
  if (step.next == Next::kWait) {
    gate_->waits(who);
    running.state = State::kWaits;
    return completed(who);
  }
  const bool full = running.pending >= kQueuedMax;
  if (full || !gate_->may_launch(who, step.stream)) {
    running.step = step_before;
    running.state = full ? State::kQueueFull : State::kStopped;
    return;
  }
  const Kernel& kernel =
      running.program.kernels[running.random.below(running.program.kernels.size())];
  const double varied = 1 + kVariation * running.random.normal();
  const auto duration = static_cast<Time>(static_cast<double>(kernel.duration) * varied);
  push(who, step.stream,
       {.is_mark = false,
        .duration = std::max<Time>(kMicrosecond, duration),
        .width = kernel.width,
        .ready = 0,
        .mark = 0});
  gate_->launched(who, step.stream, kernel);
  at(now_ + kLaunchCost, [this, who] { advance(who); });
}

void Card::wake(std::size_t who, Time after) {
  if (programs_[who].state != State::kStopped) return;
  programs_[who].state = State::kRuns;
  at(now_ + after, [this, who] { advance(who); });
}

void Card::completed(std::size_t who) {
  Running& running = programs_[who];
  if (running.state == State::kQueueFull && running.pending < kQueuedMax - 24) {
    running.state = State::kRuns;
    at(now_ + 2 * kMicrosecond, [this, who] { advance(who); });
  }
  if (running.state != State::kWaits || running.wait_ends || running.pending > 0) return;
  running.wait_ends = true;
  at(now_ + kWaitDelay + random_.jitter(2 * kMicrosecond), [this, who] { advance(who); });
}

// --- the card ------------------------------------------------------------------------------------

void Card::push(std::size_t who, int stream, Item item) {
  Running& running = programs_[who];
  auto& queue = running.streams[static_cast<std::size_t>(stream)].queue;
  item.ready = now_ + kLaunchDelay;
  queue.push_back(item);
  ++running.pending;
  at(item.ready, [this, who] {
    serve(who);
    choose();
  });
}

void Card::mark(std::size_t who, int stream, std::uint64_t number) {
  push(who, stream, {.is_mark = true, .duration = 0, .width = 0, .ready = 0, .mark = number});
}

bool Card::has_work(const Running& running) const {
  return std::ranges::any_of(running.streams, [&](const Stream& stream) {
    return !stream.queue.empty() && (stream.runs || stream.queue.front().ready <= now_);
  });
}

void Card::start_clock(Running& running) const {
  if (running.since >= 0) return;
  const Time gap = now_ - running.last_end;
  if (running.last_end >= 0 && gap <= kShortGap) running.short_gaps += gap;
  running.since = now_;
}

void Card::stop_clock(Running& running) {
  if (running.since < 0) return;
  running.busy += now_ - running.since;
  running.last_end = now_;
  running.since = -1;
}

Time Card::busy(std::size_t who) const {
  const Running& running = programs_[who];
  return running.busy + (running.since >= 0 ? now_ - running.since : 0);
}

void Card::start(std::size_t who, int stream) {
  Stream& of = programs_[who].streams[static_cast<std::size_t>(stream)];
  of.end = now_ + of.rest;
  const std::uint32_t generation = ++of.generation;
  at(of.end, [this, who, stream, generation] { end(who, stream, generation); });
}

void Card::end(std::size_t who, int stream, std::uint32_t generation) {
  Running& running = programs_[who];
  Stream& of = running.streams[static_cast<std::size_t>(stream)];
  if (of.generation != generation) return;
  running.width -= of.queue.front().width;
  of.queue.pop_front();
  of.runs = false;
  --running.pending;
  if (--running.running == 0) {
    running.width = 0;
    stop_clock(running);
  }
  serve(who);
  choose();
}

// Starts what can run of the context, if it has the card.
void Card::serve(std::size_t who) {
  Running& running = programs_[who];
  for (int i = 0; i < kStreams && has_slice(who); ++i) {
    Stream& stream = running.streams[static_cast<std::size_t>(i)];
    while (!stream.queue.empty() && !stream.runs && stream.queue.front().ready <= now_) {
      const Item item = stream.queue.front();
      if (item.is_mark) {
        stream.queue.pop_front();
        --running.pending;
        gate_->reached(who, i, item.mark);
        continue;
      }
      if (running.running > 0 && running.width + item.width > 1.0001) break;
      stream.runs = true;
      stream.rest = item.duration;
      ++running.running;
      running.width += item.width;
      start_clock(running);
      start(who, i);
    }
  }
  completed(who);
}

int Card::next_context() const {
  const int count = static_cast<int>(programs_.size());
  for (int i = 1; i <= count; ++i) {
    const int who = (std::max(current_, 0) + i) % count;
    if (who != current_ && has_work(programs_[static_cast<std::size_t>(who)])) return who;
  }
  return -1;
}

void Card::switch_to(int who) {
  if (current_ >= 0) {
    Running& before = programs_[static_cast<std::size_t>(current_)];
    for (Stream& stream : before.streams) {
      if (!stream.runs) continue;
      stream.rest = stream.end - now_;
      ++stream.generation;
    }
    stop_clock(before);
  }
  switching_ = true;
  slice_ends_ = false;
  const std::uint32_t slice = ++slice_;
  at(now_ + kSwitch, [this, who, slice] {
    if (slice != slice_) return;
    switching_ = false;
    current_ = who;
    slice_start_ = now_;
    Running& running = programs_[static_cast<std::size_t>(who)];
    if (running.running > 0) start_clock(running);
    for (int i = 0; i < kStreams; ++i) {
      if (running.streams[static_cast<std::size_t>(i)].runs)
        start(static_cast<std::size_t>(who), i);
    }
    serve(static_cast<std::size_t>(who));
    choose();
  });
}

void Card::choose() {
  if (switching_) return;
  const int other = next_context();
  if (other < 0) return;
  if (current_ < 0 || !has_work(programs_[static_cast<std::size_t>(current_)])) {
    return switch_to(other);
  }
  if (slice_ends_) return;
  slice_ends_ = true;
  const Time end = slice_start_ + ((now_ - slice_start_) / kSlice + 1) * kSlice;
  const std::uint32_t slice = slice_;
  at(end, [this, slice] {
    if (slice != slice_) return;
    slice_ends_ = false;
    const int next = next_context();
    if (next >= 0 && !switching_) switch_to(next);
  });
}

// --- time ----------------------------------------------------------------------------------------

void Card::at(Time time, std::function<void()> event) {
  events_.push({std::max(time, now_), order_++, std::move(event)});
}

void Card::run(Time until) {
  if (order_ == 0) {
    for (std::size_t who = 0; who < programs_.size(); ++who) {
      at(static_cast<Time>(who) * 10 * kMicrosecond, [this, who] { advance(who); });
    }
    gate_->begin(*this);
  }
  while (!events_.empty() && events_.top().time <= until) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    event.run();
  }
  now_ = until;
}

}  // namespace mgpu::plugin::model
