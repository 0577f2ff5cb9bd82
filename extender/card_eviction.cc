#include "extender/card_eviction.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/utc_text.h"
#include "common/kube/request.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

// The object is no longer the one that was read: it is gone, or has another uid or version.
bool has_changed(const kube::ApiError& problem) {
  return problem.kind == Kind::kNotFound || problem.kind == Kind::kConflict;
}

kube::Request in_time(kube::Request request) {
  request.timeout = kPreemptTimeout;
  return request;
}

std::string preemptor_text(const kube::Pod& pod) {
  const std::string group = group_name(pod);
  return group.empty() ? "pod " + pod.uid().str() : "group " + group;
}

}  // namespace

CardEviction::CardEviction(const Context& context, ChosenVictims chosen,
                           std::function<void()> on_failed)
    : context_(context), chosen_(std::move(chosen)), on_failed_(std::move(on_failed)) {}

void CardEviction::nominate() {
  if (all_nominated()) {
    say_why();
    return evict_next();
  }
  const ChosenVictims::Preemptor& next = chosen_.pods[nominated_];
  const auto on_nominated = [self = shared_from_this()](const kube::ApiResult<void>& nominated) {
    if (!nominated) return self->fail(nominated.error());
    ++self->nominated_;
    self->nominate();
  };
  context_.client.write(in_time(kube::nominate(next.pod, next.node)),
                        "nominate pod " + to_string(next.pod.ref()),
                        context_.callbacks.wrap(on_nominated));
}

void CardEviction::say_why() {
  const std::size_t victims = chosen_.victims.size();
  const std::size_t pods = chosen_.pods.size();
  for (const auto& [pod, node] : chosen_.pods) {
    const std::string where = pods == 1 ? fmt::format("on node {}", node.str())
                                        : fmt::format("for the {} pods of its group", pods);
    context_.recorder.on_pod(
        pod.ref(), pod.uid(),
        {kube::Event::Type::kNormal, "MGPUPreempting",
         fmt::format("no node has a card with enough that is free: {} pod{} of lower "
                     "priority are evicted {}",
                     victims, victims == 1 ? "" : "s", where)});
  }
}

void CardEviction::evict_next() {
  const Events& events = context_.events;
  if (evicted_ == chosen_.victims.size()) return end();
  if (!events.decides())
    return fail({Kind::kUnavailable, "this process no longer decides about pods"});
  const auto on_held = [self = shared_from_this()](const kube::ApiResult<void>& held) {
    if (held) return self->mark_victim();
    // Another process evicts now.
    if (held.error().kind == Kind::kRefused && !self->context_.events.decides()) return self->end();
    self->try_again(held.error());
  };
  events.confirm(context_.callbacks.wrap(on_held));
}

void CardEviction::mark_victim() {
  const auto on_marked = [self = shared_from_this()](const kube::ApiResult<void>& marked) {
    // A pod of another uid is refused as a pod that may not be marked is, and a conflict is one
    // with kubelet: DELETE tells them apart.
    if (marked || marked.error().kind == Kind::kRefused || marked.error().kind == Kind::kConflict)
      return self->delete_victim();
    has_changed(marked.error()) ? self->on_evicted() : self->try_again(marked.error());
  };
  context_.client.write(
      in_time(kube::mark_preempted(victim().pod, victim().uid,
                                   "mgpu-extender: preempting to accommodate a higher priority pod",
                                   utc_now())),
      "mark pod " + to_string(victim().pod), context_.callbacks.wrap(on_marked));
}

void CardEviction::delete_victim() {
  const auto on_deleted = [self = shared_from_this()](const kube::ApiResult<void>& deleted) {
    if (!deleted && !has_changed(deleted.error())) return self->try_again(deleted.error());
    if (deleted) self->note_deleted();
    self->on_evicted();
  };
  context_.client.write(in_time(kube::delete_pod(victim().pod, victim().uid)),
                        "delete pod " + to_string(victim().pod),
                        context_.callbacks.wrap(on_deleted));
}

void CardEviction::note_deleted() {
  const kube::Pod& preemptor = chosen_.pods.front().pod;
  log_info("evicted a pod for one of higher priority", {{"pod", to_string(victim().pod)},
                                                        {"node", victim().node.str()},
                                                        {"for", to_string(preemptor.ref())}});
  context_.recorder.on_pod(
      victim().pod, victim().uid,
      {kube::Event::Type::kNormal, "Preempted",
       fmt::format("Preempted by {} on node {}", preemptor_text(preemptor), victim().node.str())});
}

// Whether an eviction without an answer has happened is not known. It may be repeated.
void CardEviction::try_again(const kube::ApiError& problem) {
  if (problem.kind == Kind::kRefused || ++tries_ == kPreemptTriesMax) return fail(problem);
  context_.client.executor().after(
      kPreemptRetry, context_.callbacks.wrap([self = shared_from_this()] { self->evict_next(); }));
}

void CardEviction::on_evicted() {
  context_.spared.evicted();
  tries_ = 0;
  ++evicted_;
  evict_next();
}

void CardEviction::fail(const kube::ApiError& problem) {
  const Instant now = context_.client.executor().now();
  if (!has_changed(problem)) {
    context_.events.on_problem(problem.message);
    if (problem.kind == Kind::kRefused)
      context_.spared.refused(all_nominated() ? std::optional(victim().uid) : std::nullopt, now);
  }
  on_failed_();
  if (evicted_ > 0) return end();
  // Whether the last one is nominated may not be known.
  std::size_t nominated = nominated_;
  if (!all_nominated() && problem.kind == Kind::kUnknown) ++nominated;
  // Where the pods of a group have changed, they may be bound now, with cards that are reserved.
  const bool free = chosen_.pods.size() == 1 || !has_changed(problem);
  for (std::size_t i = 0; i < chosen_.pods.size(); ++i) {
    const ChosenVictims::Preemptor& chosen = chosen_.pods[i];
    if (free) {
      context_.ledger.reservations().offer_nomination({chosen.pod.uid(), chosen.pod.priority}, {},
                                                      NodeName(), now);
    }
    if (i < nominated) take_back(chosen);
  }
}

// kube-scheduler may have nominated the pod for another node since then, or bound it.
void CardEviction::take_back(const ChosenVictims::Preemptor& nominated) {
  const auto on_pod = [&client = context_.client,
                       nominated](const kube::ApiResult<kube::Pod>& pod) {
    const bool stays = pod && pod->uid() == nominated.pod.uid() && pod->node_name.empty() &&
                       pod->nominated_node == nominated.node.str();
    if (!stays) return;
    client.write(in_time(kube::nominate(*pod, NodeName())),
                 "take back the nomination of pod " + to_string(pod->ref()), [](const auto&) {});
  };
  context_.client.get_pod(nominated.pod.ref(), kPreemptTimeout, context_.callbacks.wrap(on_pod));
}

void CardEviction::end() {
  if (evicted_ > 0) context_.events.on_ended(evicted_);
}

}  // namespace mgpu::extender
