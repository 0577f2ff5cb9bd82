#include "extender/bind/binder.h"

#include <atomic>
#include <deque>
#include <utility>

#include "extender/bind/assumed_pods.h"
#include "extender/bind/attempt.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {

// Everything on the client's executor, but for the counter.
struct Binder::State : std::enable_shared_from_this<Binder::State> {
  using Done = std::function<void(std::string)>;

  State(kube::Client& client, Ledger& ledger, const Settings& settings, std::size_t most,
        BinderEvents events)
      : core(new BinderCore{
            client, ledger, settings, std::move(events), {}, PodCache(kCachedPodsMax), {}}),
        running_max(most) {}

  void admit(BindingArgs args, Instant begun, Done done);
  std::shared_ptr<BindAttempt> new_attempt(BindingArgs args, Instant deadline, Done done);
  void start_waiting();
  void report(const BindAnswer& answer, const Done& done);

  const std::shared_ptr<BinderCore> core;
  const std::size_t running_max;
  std::deque<std::shared_ptr<BindAttempt>> waiting;
  std::size_t running = 0;
  bool starting = false;
  std::atomic<std::size_t> in_flight{0};
};

void Binder::State::admit(BindingArgs args, Instant begun, Done done) {
  // They expire in the order in which they came.
  while (!waiting.empty() && waiting.front()->answered()) waiting.pop_front();
  if (running >= running_max && waiting.size() >= kBindsQueuedMax) {
    const std::string busy = std::to_string(waiting.size()) + " binds are waiting already";
    return report({BindOutcome::kUnavailable, busy}, done);
  }
  waiting.push_back(new_attempt(std::move(args), begun + kBindTimeout, std::move(done)));
  start_waiting();
}

std::shared_ptr<BindAttempt> Binder::State::new_attempt(BindingArgs args, Instant deadline,
                                                        Done done) {
  Executor& executor = core->client.executor();
  const auto timer = std::make_shared<Executor::TimerId>();
  // Those that wait are held here and hold this: the binder lets go of them at its end.
  const auto self = shared_from_this();
  BindAttempt::Handlers handlers;
  handlers.on_answer = [self, timer, done = std::move(done)](const BindAnswer& answer) {
    self->core->client.executor().cancel(*timer);
    self->report(answer, done);
  };
  handlers.on_end = [self] {
    --self->running;
    self->start_waiting();
  };
  auto attempt =
      std::make_shared<BindAttempt>(core, std::move(args), deadline, std::move(handlers));
  *timer = executor.after(deadline - executor.now(),
                          core->callbacks.wrap([attempt] { attempt->expire(); }));
  return attempt;
}

// An attempt may end before start() returns: then the loop here goes on, not one within it.
void Binder::State::start_waiting() {
  if (starting) return;
  starting = true;
  while (running < running_max && !waiting.empty()) {
    const auto attempt = std::move(waiting.front());
    waiting.pop_front();
    if (attempt->answered()) continue;
    ++running;
    attempt->start();
  }
  starting = false;
}

void Binder::State::report(const BindAnswer& answer, const Done& done) {
  in_flight.fetch_sub(1, std::memory_order_relaxed);
  if (core->events.on_outcome) core->events.on_outcome(answer.outcome);
  done(answer.error);
}

Binder::Binder(kube::Client& client, Ledger& ledger, const Settings& settings,
               std::size_t binds_in_flight, BinderEvents events)
    : state_(
          std::make_shared<State>(client, ledger, settings, binds_in_flight, std::move(events))) {}

Binder::~Binder() {
  state_->core->callbacks.close();
  state_->waiting.clear();
}

void Binder::remember(const kube::Pod& pod) {
  state_->core->pods.put(pod);
}

void Binder::bind(BindingArgs args, std::function<void(std::string error)> done) {
  state_->in_flight.fetch_add(1, std::memory_order_relaxed);
  Executor& executor = state_->core->client.executor();
  executor.post(
      state_->core->callbacks.wrap([state = state_, begun = executor.now(), args = std::move(args),
                                    done = std::move(done)]() mutable {
        state->admit(std::move(args), begun, std::move(done));
      }));
}

void Binder::start_rechecks() {
  std::make_shared<AssumedPodReconciler>(state_->core)->start();
}

std::size_t Binder::in_flight() const {
  return state_->in_flight.load(std::memory_order_relaxed);
}

}  // namespace mgpu::extender
