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
  return Watched(
      "nodes", kube::all_nodes(), parts_.transport, parts_.probe,
      node_consumer(parts_.verbs.ledger, parts_.verbs.settings.contract,
                    [this](const std::string& why) { nodes_.note_unreadable(why); }),
      {.on_change = [this] { parts_.requeue.on_change(); }, .on_listed = parts_.on_listed});
}

Watched Watches::watch_pods() {
  PodHandlers handlers;
  handlers.on_settled = [this](const PodUid& uid) {
    parts_.requeue.on_settled(uid);
    if (parts_.verbs.answered != nullptr) parts_.verbs.answered->end(uid);
  };
  handlers.on_running = [this](const PodRef& pod, const NonGpuPod& facts,
                               const GpuRequest& request) {
    parts_.verbs.window->seen(tie_break_seed_of(facts.uid), pod.name_space, request,
                              facts.resources);
  };
  handlers.on_drift = [this](const DriftChange& change) { note_drift(parts_.probe, change); };
  return Watched(
      "pods", kube::in_protobuf(kube::bound_pods()), parts_.transport, parts_.probe,
      pod_consumer(parts_.verbs.ledger, parts_.verbs.settings.contract, std::move(handlers)),
      {.on_change = [this] { parts_.requeue.on_change(); }, .on_listed = parts_.on_listed});
}

Watched Watches::watch_budgets() {
  return Watched("poddisruptionbudgets", kube::all_pod_disruption_budgets(), parts_.transport,
                 parts_.probe, parts_.budgets.consumer(), {});
}

Watched Watches::watch_nominations() {
  const NominationHandlers handlers{
      .on_nominated = [this](const kube::Pod& pod) { parts_.binder.remember_nominated(pod); },
      .on_ended = [this](const PodUid& uid) { parts_.binder.forget(uid); }};
  return Watched("nominatedpods", kube::in_protobuf(kube::nominated_pods()), parts_.transport,
                 parts_.probe, nomination_consumer(parts_.verbs.ledger, handlers),
                 {.on_change = [this] { parts_.requeue.on_change(); }});
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
    parts_.probe.watch_silence(watched->name(), watched->silent_for());
}

}  // namespace mgpu::extender
