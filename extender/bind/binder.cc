#include "extender/bind/binder.h"

#include <utility>

#include "extender/bind/limits.h"

namespace mgpu::extender {

Binder::Binder(kube::Client& client, const VerbContext& verbs, const BindGuards& guards,
               std::size_t binds_in_flight, BinderEvents events)
    : running_max_(binds_in_flight),
      context_{client, verbs.ledger, verbs.options, verbs.prices, guards, std::move(events)},
      in_flight_(client.executor(), context_.events.on_filter_delayed) {}

Binder::~Binder() {
  context_.callbacks.close();
}

void Binder::remember(const kube::Pod& pod) {
  if (!pod.node_name.empty() || pod.metadata.being_deleted || pod.finished()) return;
  if (auto bindable = read_bindable_pod(pod, context_.options)) {
    context_.pods.put(*std::move(bindable));
  }
}

void Binder::remember_nominated(const kube::Pod& pod) {
  if (!context_.pods.facts_of(pod.uid())) return;
  remember(pod);
  context_.client.executor().post(
      context_.callbacks.wrap([this, uid = pod.uid()] { context_.nominations.on_shown(uid); }));
}

void Binder::forget(const PodUid& uid) {
  context_.pods.take(uid);
}

void Binder::bind(BindingArgs args, Done done) {
  in_flight_.begin();
  Executor& executor = context_.client.executor();
  executor.post(context_.callbacks.wrap(
      [this, deadline = executor.now() + kBindTimeout, args = std::move(args),
       done = std::move(done)]() mutable { admit(std::move(args), deadline, std::move(done)); }));
}

void Binder::admit(BindingArgs args, Instant deadline, Done done) {
  // It may wait here or for a read, and another one of the group may be bound meanwhile.
  const auto kept = context_.pods.facts_of(args.uid);
  if (kept && !kept->group.empty())
    context_.ledger.reservations().keep_group(kept->group, context_.client.executor().now());
  // Attempts expire in the order in which they were queued.
  while (!waiting_.empty() && waiting_.front()->answered()) waiting_.pop_front();
  if (waiting_.size() >= kBindsQueuedMax) {
    return report(
        args.uid,
        {BindOutcome::kUnavailable, std::to_string(waiting_.size()) + " binds are waiting already"},
        done);
  }
  BindAttempt::Events attempt_events;
  attempt_events.on_end = [this] {
    --running_;
    if (waiting_.empty()) return;
    context_.client.executor().post(context_.callbacks.wrap([this] { start_next(); }));
  };
  attempt_events.on_answer = [this, uid = args.uid, done = std::move(done)](
                                 const BindAnswer& answer) { report(uid, answer, done); };
  waiting_.push_back(std::make_shared<BindAttempt>(context_, std::move(args), deadline,
                                                   std::move(attempt_events)));
  waiting_.back()->start_timer();
  start_next();
}

// Starts one attempt where there is room. Its answer may end the binder: nothing follows it.
void Binder::start_next() {
  while (running_ < running_max_ && !waiting_.empty()) {
    const auto attempt = std::move(waiting_.front());
    waiting_.pop_front();
    if (attempt->answered()) continue;
    ++running_;
    return attempt->start();
  }
}

void Binder::report(const PodUid& uid, const BindAnswer& answer, const Done& done) {
  const BindOutcome outcome = answer.outcome;
  in_flight_.end(outcome == BindOutcome::kBound);
  if (context_.events.on_outcome) context_.events.on_outcome(outcome);
  const bool elsewhere_too = outcome == BindOutcome::kUnfit || outcome == BindOutcome::kUnavailable;
  if (elsewhere_too && context_.events.on_not_refused_by_node)
    context_.events.on_not_refused_by_node(uid);
  done(answer.error);
}

}  // namespace mgpu::extender
