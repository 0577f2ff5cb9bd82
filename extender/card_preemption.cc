#include "extender/card_preemption.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/utc_text.h"
#include "common/kube/request.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

// The object is no longer the one that was read: it is gone, or has another uid or version.
bool has_changed(const kube::ApiError& problem) {
  return problem.kind == Kind::kNotFound || problem.kind == Kind::kConflict;
}

bool is_pending(const kube::Pod& pod) {
  return pod.node_name.empty() && pod.nominated_node.empty() && !pod.metadata.being_deleted &&
         !pod.gated && !pod.finished();
}

kube::Request in_time(kube::Request request) {
  request.timeout = kPreemptTimeout;
  return request;
}

}  // namespace

CardPreemption::CardPreemption(const VerbContext& context, kube::Transport& transport,
                               Executor& choosing, const std::string& process, Events events)
    : context_(context),
      executor_(transport.executor()),
      events_(std::move(events)),
      client_(transport),
      recorder_({.component = "mgpu-extender", .host = process}, transport, utc_now),
      choosing_(choosing) {}

void CardPreemption::start() {
  polls_ = true;
  poll_later();
}

void CardPreemption::on_filter(const kube::Pod& pod, const FilterReply& reply) {
  if (!polls_) return;
  const MutexLock lock(mutex_);
  // A pod that fits on a node that was not asked about is tried again.
  if (reply.outcome == FilterOutcome::kFits || !reply.fitting_elsewhere.empty())
    return preemptors_.settled(pod.uid());
  Preemptors::Preemptor preemptor{
      pod.ref(), pod.uid(), pod.priority, !pod.nominated_node.empty(), {}};
  const std::size_t nodes = std::min(reply.failed.size(), kPreemptNodesMax);
  for (std::size_t i = 0; i < nodes; ++i) preemptor.nodes.emplace_back(reply.failed[i].node);
  preemptors_.refused(std::move(preemptor), executor_.now());
}

bool CardPreemption::is_evicting(const PodUid& uid) {
  const MutexLock lock(mutex_);
  return preemptors_.is_evicting(uid, executor_.now());
}

void CardPreemption::on_preempted(const PodUid& uid) {
  const MutexLock lock(mutex_);
  preemptors_.settled(uid);
}

void CardPreemption::poll_later() {
  executor_.after(kPreemptPollInterval, callbacks_.wrap([this] {
    poll();
    poll_later();
  }));
}

void CardPreemption::poll() {
  const Instant now = executor_.now();
  std::vector<Preemptors::Preemptor> due;
  {
    const MutexLock lock(mutex_);
    due = preemptors_.take_due(now);
  }
  if (now < paused_until_ || !events_.decides()) return;
  for (Preemptors::Preemptor& pod : due) {
    if (!has_lower_priorities(pod)) continue;
    const auto on_pod = [this, uid = pod.uid,
                         nodes = std::move(pod.nodes)](const kube::ApiResult<kube::Pod>& read) {
      if (read && read->uid() == uid && is_pending(*read)) choose(*read, nodes);
    };
    client_.get_pod(pod.ref, kPreemptTimeout, callbacks_.wrap(on_pod));
  }
}

// Where all pods have one priority, as in most clusters, no pod is read and nothing is searched.
bool CardPreemption::has_lower_priorities(const Preemptors::Preemptor& pod) const {
  bool any = false;
  context_.ledger.read(executor_.now(), [&](const View& view) {
    any = std::ranges::any_of(pod.nodes, [&](const std::string& node) {
      return std::ranges::any_of(view.claims_on(node), [&](const ClaimView* held) {
        return held->claim.priority < pod.priority;
      });
    });
  });
  return any;
}

void CardPreemption::choose(const kube::Pod& pod, const std::vector<std::string>& nodes) {
  auto slot = choosing_.reserve();
  if (!slot) return;
  std::erase_if(spared_, [now = executor_.now()](const auto& one) { return one.second <= now; });
  std::set<PodUid> spared;
  for (const auto& [uid, until] : spared_) spared.insert(uid);
  choosing_.run(std::move(slot), [this, pod, nodes, spared = std::move(spared)] {
    auto chosen = preempt_by_card(pod, nodes, spared, context_, executor_.now());
    if (!chosen) return;
    const auto eviction = std::make_shared<Eviction>(Eviction{pod, *std::move(chosen)});
    executor_.post(callbacks_.wrap([this, eviction] { nominate(eviction); }));
  });
}

void CardPreemption::nominate(const Evicting& eviction) {
  {
    const Instant now = executor_.now();
    const MutexLock lock(mutex_);
    if (!preemptors_.begin(eviction->pod.uid(), now, now + context_.settings.nomination_life))
      return;
  }
  const auto on_nominated = [this, eviction](const kube::ApiResult<void>& nominated) {
    eviction->nominated = nominated || nominated.error().kind == Kind::kUnknown;
    if (!nominated) return fail(eviction, nominated.error());
    recorder_.on_pod(eviction->pod.ref(), eviction->pod.uid(),
                     {kube::Event::Type::kNormal, "MGPUPreempting",
                      fmt::format("no node has a card with enough that is free: {} pod{} of lower "
                                  "priority are evicted on node {}",
                                  eviction->chosen.victims.size(),
                                  eviction->chosen.victims.size() == 1 ? "" : "s",
                                  eviction->chosen.node.str())});
    evict_next(eviction);
  };
  client_.write(in_time(kube::nominate(eviction->pod, eviction->chosen.node)),
                "nominate pod " + to_string(eviction->pod.ref()), callbacks_.wrap(on_nominated));
}

void CardPreemption::evict_next(const Evicting& eviction) {
  if (eviction->evicted == eviction->chosen.victims.size() || !events_.decides())
    return end(eviction);
  const auto& victim = eviction->victim();
  const auto on_marked = [this, eviction](const kube::ApiResult<void>& marked) {
    // A pod of another uid is refused as a pod that may not be marked is, and a conflict is one
    // with kubelet: DELETE tells them apart.
    if (marked || marked.error().kind == Kind::kRefused || marked.error().kind == Kind::kConflict)
      return delete_victim(eviction);
    has_changed(marked.error()) ? evicted(eviction) : try_again(eviction, marked.error());
  };
  client_.write(in_time(kube::mark_preempted(
                    victim.pod, victim.uid,
                    "mgpu-extender: preempting to accommodate a higher priority pod", utc_now())),
                "mark pod " + to_string(victim.pod), callbacks_.wrap(on_marked));
}

void CardPreemption::delete_victim(const Evicting& eviction) {
  const ChosenVictims::Victim& victim = eviction->victim();
  const auto on_deleted = [this, eviction, victim](const kube::ApiResult<void>& deleted) {
    if (!deleted && !has_changed(deleted.error())) return try_again(eviction, deleted.error());
    if (deleted) {
      log_info("evicted a pod for one of higher priority",
               {{"pod", to_string(victim.pod)},
                {"node", eviction->chosen.node.str()},
                {"for", to_string(eviction->pod.ref())}});
      recorder_.on_pod(victim.pod, victim.uid,
                       {kube::Event::Type::kNormal, "Preempted",
                        fmt::format("Preempted by pod {} on node {}", eviction->pod.uid().str(),
                                    eviction->chosen.node.str())});
    }
    evicted(eviction);
  };
  client_.write(in_time(kube::delete_pod(victim.pod, victim.uid)),
                "delete pod " + to_string(victim.pod), callbacks_.wrap(on_deleted));
}

// Whether an eviction without an answer has happened is not known. It may be repeated.
void CardPreemption::try_again(const Evicting& eviction, const kube::ApiError& problem) {
  if (problem.kind == Kind::kRefused || ++eviction->tries == kPreemptTriesMax)
    return fail(eviction, problem);
  executor_.after(kPreemptRetry, callbacks_.wrap([this, eviction] { evict_next(eviction); }));
}

void CardPreemption::evicted(const Evicting& eviction) {
  refusals_ = 0;
  eviction->tries = 0;
  ++eviction->evicted;
  evict_next(eviction);
}

void CardPreemption::note_refusal(const Evicting& eviction) {
  const Instant until = executor_.now() + kPreemptRefusedPause;
  if (eviction->nominated && spared_.size() < kPreemptSparedMax)
    spared_[eviction->victim().uid] = until;
  if (++refusals_ < kPreemptRefusalsMax) return;
  refusals_ = 0;
  paused_until_ = until;
}

void CardPreemption::fail(const Evicting& eviction, const kube::ApiError& problem) {
  const PodUid uid = eviction->pod.uid();
  if (!has_changed(problem)) {
    events_.on_problem(problem.message);
    if (problem.kind == Kind::kRefused) note_refusal(eviction);
  }
  {
    const MutexLock lock(mutex_);
    preemptors_.not_evicting(uid);
  }
  if (eviction->evicted > 0) return end(eviction);
  context_.ledger.offer_nomination({uid, eviction->pod.priority}, {}, NodeName(), executor_.now());
  if (!eviction->nominated) return;
  kube::Pod pod = eviction->pod;
  pod.metadata.resource_version.clear();
  client_.write(in_time(kube::nominate(pod, NodeName())),
                "take back the nomination of pod " + to_string(pod.ref()), [](const auto&) {});
}

void CardPreemption::end(const Evicting& eviction) {
  if (eviction->evicted > 0) events_.on_ended(eviction->evicted);
}

}  // namespace mgpu::extender
