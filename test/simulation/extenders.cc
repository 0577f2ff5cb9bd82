#include "test/simulation/extenders.h"

#include <utility>

namespace mgpu::simulation {
namespace {

constexpr double kRestartMaxMs = 3'000;
// A process that was replaced runs on for this long after it was stopped: longer than its binds.
constexpr Duration kReplacedRuns{15'000};

}  // namespace

Extenders::Extenders(kube::MemoryApiServer& server, const Contract& contract)
    : world_(server.executor()), server_(server), contract_(contract) {
  start();
}

ExtenderProcess* Extenders::find(int number) {
  const auto at = processes_.find(number);
  return at == processes_.end() ? nullptr : at->second.get();
}

void Extenders::call(const std::string& verb, std::string body,
                     const std::function<void(int status, const std::string& body)>& done) {
  if (ExtenderProcess* process = find(serving_)) return process->call(verb, std::move(body), done);
  done(0, "");
}

void Extenders::start() {
  const int number = ++started_;
  processes_[number] = std::make_unique<ExtenderProcess>(
      server_, faults_, contract_, "extender-" + std::to_string(number),
      ExtenderProcess::Role::kExtender, [this, number] { on_lease_lost(number); });
  newest_ = number;
  serving_ = number;
}

void Extenders::start_later() {
  const Duration delay(1 + static_cast<int>(world_.random() * kRestartMaxMs));
  world_.after(delay, [this, before = started_] {
    if (started_ == before) start();
  });
}

void Extenders::kill() {
  processes_.erase(newest_);
  start_later();
}

// Until the new process has started, the old one gets the requests of kube-scheduler.
void Extenders::replace(Stop stop, Duration time) {
  ExtenderProcess* process = newest();
  if (process == nullptr) return;
  ProcessClock& clock = process->link().executor();
  stop == Stop::kPaused ? clock.pause(time) : clock.freeze(time);
  world_.after(time + kReplacedRuns, [this, number = newest_] { processes_.erase(number); });
  start_later();
}

// The process calls this, and ends.
void Extenders::on_lease_lost(int number) {
  world_.post([this, number] {
    processes_.erase(number);
    if (number == newest_) start_later();
  });
}

}  // namespace mgpu::simulation
