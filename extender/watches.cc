#include "extender/watches.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/kube/request.h"
#include "extender/ledger/consumers.h"

namespace mgpu::extender {
namespace {

// The ledger reports a change of state once, however often the annotations are edited.
void note_drift(Probe& probe, const DriftChange& change) {
  if (!change.drift) {
    log_info("the annotations of a pod agree with its cards again",
             {{"pod", to_string(change.pod)}, {"node", change.node.str()}});
    return;
  }
  probe.drifted(*change.drift);
  log_warn("the annotations of a bound pod do not agree with its cards",
           {{"pod", to_string(change.pod)},
            {"node", change.node.str()},
            {"drift", std::string(to_string(*change.drift))},
            {"detail", change.detail}});
}

}  // namespace

Watched Watches::watch_nodes() {
  return Watched("nodes", kube::all_nodes(), dependencies_.transport, dependencies_.probe,
                 node_consumer(dependencies_.verbs.ledger, dependencies_.verbs.options.contract,
                               [this](const std::string& why) { nodes_.note_unreadable(why); }),
                 {.on_change = [this] { dependencies_.requeue.on_change(); },
                  .on_listed = dependencies_.on_listed});
}

Watched Watches::watch_pods() {
  PodEvents events;
  events.on_settled = [this](const PodUid& uid) {
    dependencies_.requeue.on_settled(uid);
    if (dependencies_.verbs.answered != nullptr) dependencies_.verbs.answered->end(uid);
  };
  events.on_running = [this](const PodRef& pod, const NonGpuPod& facts, const GpuRequest& request) {
    dependencies_.verbs.window->seen(tie_break_seed_of(facts.uid), pod.name_space, request,
                                     facts.resources);
  };
  events.on_drift = [this](const DriftChange& change) { note_drift(dependencies_.probe, change); };
  return Watched("pods", kube::in_protobuf(kube::bound_pods()), dependencies_.transport,
                 dependencies_.probe,
                 pod_consumer(dependencies_.verbs.ledger, dependencies_.verbs.options.contract,
                              std::move(events)),
                 {.on_change = [this] { dependencies_.requeue.on_change(); },
                  .on_listed = dependencies_.on_listed});
}

Watched Watches::watch_budgets() {
  return Watched("poddisruptionbudgets", kube::all_pod_disruption_budgets(),
                 dependencies_.transport, dependencies_.probe, dependencies_.budgets.consumer(),
                 {});
}

Watched Watches::watch_nominations() {
  const NominationEvents events{
      .on_nominated =
          [this](const kube::Pod& pod) { dependencies_.binder.remember_nominated(pod); },
      .on_ended = [this](const PodUid& uid) { dependencies_.binder.forget(uid); }};
  return Watched("nominatedpods", kube::in_protobuf(kube::nominated_pods()),
                 dependencies_.transport, dependencies_.probe,
                 nomination_consumer(dependencies_.verbs.ledger.reservations(), events),
                 {.on_change = [this] { dependencies_.requeue.on_change(); }});
}

// Not the pods: they are listed when no earlier binding can happen any more (start_sequence.h).
void Watches::start() {
  nodes_.start();
  budgets_watch_.start();
  nominations_.start();
}

void Watches::report(Readiness& readiness) const {
  for (const Watched* watched : all_) {
    if (!watched->listed()) {
      const bool needed = watched == &nodes_ || watched == &pods_;
      (needed ? readiness.waiting_for : readiness.without).emplace_back(watched->name());
    }
    if (watched->unreadable() > 0) readiness.unreadable[watched->name()] = watched->unreadable();
    if (watched->problem().empty()) continue;
    readiness.failing = true;
    const auto silence = std::chrono::duration_cast<std::chrono::seconds>(watched->silent_for());
    readiness.silence = std::max(readiness.silence, silence);
  }
}

void Watches::update_metrics() const {
  for (const Watched* watched : all_)
    dependencies_.probe.watch_silence(watched->name(), watched->silent_for());
}

}  // namespace mgpu::extender
