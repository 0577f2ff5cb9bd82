#include "extender/pending_events.h"

#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/utc_text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"
#include "common/kube/request.h"
#include "extender/inspect/pending_text.h"
#include "extender/inspect/views.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

PendingEvents::PendingEvents(const VerbContext& context, kube::Transport& transport,
                             Executor& explaining, const std::string& process,
                             std::function<bool()> decides)
    : context_(context),
      executor_(transport.executor()),
      decides_(std::move(decides)),
      client_(transport),
      recorder_({.component = "mgpu-extender", .host = process}, transport, utc_now),
      explaining_(explaining),
      reflector_("pending pods", kube::in_protobuf(kube::unbound_pods()), transport, consumer(),
                 {.on_problem = [](const std::string& problem) {
                   log_debug("pending pods are not watched, trying again", {{"problem", problem}});
                 }}) {}

void PendingEvents::start() {
  reflector_.start();
  poll_later();
}

kube::Consumer<PendingEvents::Seen> PendingEvents::consumer() {
  return {
      .read = [this](std::string_view json) { return seen(kube::read_pod(json)); },
      .read_protobuf = [this](std::string_view pod) { return seen(kube::read_pod_protobuf(pod)); },
      .apply = [this](const Seen& seen) { apply(seen); },
      .remove =
          [this](const Seen& seen) {
            pods_.remove(seen.pod.uid);
            // Nothing is kept for a pod that was deleted.
            context_.ledger.reservations().end_nomination(seen.pod.uid);
          },
      .relist =
          [this](const std::vector<Seen>& all, bool complete) {
            std::vector<PendingPods::Pending> pending;
            for (const Seen& seen : all)
              if (seen.pending) pending.push_back(seen.pod);
            if (complete) pods_.keep_only(pending);
            for (const Seen& seen : all) apply(seen);
          }};
}

Result<PendingEvents::Seen> PendingEvents::seen(const Result<kube::Pod>& pod) const {
  if (!pod) return pod.error();
  const bool pending = !pod->gated && !pod->metadata.being_deleted;
  return Seen{{pod->ref(), pod->uid(), group_name(*pod)},
              pending,
              names_cards(*pod, context_.options.contract)};
}

void PendingEvents::apply(const Seen& seen) {
  if (!seen.pending) return pods_.remove(seen.pod.uid);
  seen.names_cards ? pods_.add(seen.pod, executor_.now()) : pods_.add_without_cards(seen.pod);
}

void PendingEvents::poll_later() {
  executor_.after(kPendingPollInterval, callbacks_.wrap([this] {
    poll();
    poll_later();
  }));
}

void PendingEvents::poll() {
  if (!decides_()) return;
  for (const PendingPods::Pending& pending : pods_.take_due(executor_.now())) {
    const auto on_pod = [this, uid = pending.uid](const kube::ApiResult<kube::Pod>& pod) {
      if (pod && pod->uid() == uid && pod->node_name.empty()) explain(*pod);
    };
    client_.get_pod(pending.ref, kPendingReadTimeout, callbacks_.wrap(on_pod));
  }
}

void PendingEvents::explain(const kube::Pod& pod) {
  auto slot = explaining_.reserve();
  if (!slot) return;
  const std::string group = group_name(pod);
  const std::size_t group_pods =
      group.empty() ? 0 : pods_.of_group(group, kPendingGroupPodsMax).size();
  explaining_.run(std::move(slot), [this, pod, group_pods] {
    const auto go_on = [this, deadline = executor_.now() + kPendingTimeMax] {
      return !explaining_.ending() && executor_.now() < deadline;
    };
    // This removes what is no longer kept.
    context_.ledger.reader().read(executor_.now(), [](const View&) {});
    const Json answer =
        explanation_of(context_, pod, {.after = "", .limit = 1},
                       {.steps = kPendingStepsMax, .rows = 1, .go_on = go_on}, group_pods);
    if (explaining_.ending()) return;
    executor_.post(callbacks_.wrap([this, ref = pod.ref(), uid = pod.uid(),
                                    text = pending_text(answer), fits = cards_fit(answer)] {
      if (!pods_.explained(uid, text, fits, executor_.now())) return;
      recorder_.on_pod(ref, uid, {kube::Event::Type::kWarning, "MGPUPending", text});
    }));
  });
}

}  // namespace mgpu::extender
