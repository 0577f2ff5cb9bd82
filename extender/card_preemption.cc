#include "extender/card_preemption.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

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

// A group preempts as one.
PodUid preemptor_of(const kube::Pod& pod) {
  const std::string group = group_name(pod);
  return group.empty() ? pod.uid() : PodUid(group);
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
  const PodUid uid = preemptor_of(pod);
  const bool is_group = uid != pod.uid();
  // A pod that fits on a node that was not asked about is tried again. Where one member of a group
  // fits, others may not.
  if (reply.outcome == FilterOutcome::kFits || !reply.fitting_elsewhere.empty()) {
    if (!is_group) preemptors_.settled(uid);
    return;
  }
  Preemptors::Preemptor preemptor{pod.ref(), uid,     pod.priority, !pod.nominated_node.empty(),
                                  {},        is_group};
  const std::size_t nodes = std::min(reply.failed.size(), kPreemptNodesMax);
  for (std::size_t i = 0; i < nodes; ++i) preemptor.nodes.emplace_back(reply.failed[i].node);
  preemptors_.refused(std::move(preemptor), executor_.now());
}

bool CardPreemption::is_evicting(const kube::Pod& pod) {
  const MutexLock lock(mutex_);
  return preemptors_.is_evicting(preemptor_of(pod), executor_.now());
}

void CardPreemption::on_preempted(const kube::Pod& pod) {
  const MutexLock lock(mutex_);
  preemptors_.settled(preemptor_of(pod));
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
  for (const Preemptors::Preemptor& preemptor : due)
    if (has_lower_priorities(preemptor)) read(preemptor);
}

void CardPreemption::read(const Preemptors::Preemptor& preemptor) {
  const auto members = preemptor.is_group
                           ? events_.members(preemptor.uid.str(), kPreemptMembersMax)
                           : std::vector<PendingPods::Pending>{{preemptor.ref, preemptor.uid}};
  const auto reading = std::make_shared<Reading>(
      Reading{preemptor, members.size(), {}, context_.ledger.reservations().answers()});
  for (const PendingPods::Pending& member : members) {
    const auto on_pod = [this, reading, uid = member.uid,
                         all = members.size()](const kube::ApiResult<kube::Pod>& pod) {
      if (pod && pod->uid() == uid && is_pending(*pod)) reading->pods.push_back(*pod);
      if (--reading->left > 0 || reading->pods.size() != all) return;
      choose(reading);
    };
    client_.get_pod(member.ref, kPreemptTimeout, callbacks_.wrap(on_pod));
  }
}

// Where all pods have one priority, as in most clusters, no pod is read and nothing is searched.
bool CardPreemption::has_lower_priorities(const Preemptors::Preemptor& pod) const {
  bool any = false;
  context_.ledger.reader().read(executor_.now(), [&](const View& view) {
    any = std::ranges::any_of(pod.nodes, [&](const std::string& node) {
      return std::ranges::any_of(view.claims_on(node), [&](const ClaimView* held) {
        return held->claim.priority < pod.priority;
      });
    });
  });
  return any;
}

Spared CardPreemption::spared(const Reading& preempting) {
  const auto ended = [now = executor_.now()](Instant until) { return until <= now; };
  std::erase_if(spared_, [&](const auto& one) { return ended(one.second); });
  std::erase_if(groups_, [&](const auto& one) { return ended(one.second.until); });
  Spared spared;
  for (const auto& [uid, until] : spared_) spared.pods.insert(uid);
  for (const auto& [name, group] : groups_) spared.groups[name] = group.evicted_together;
  spared.other_groups = preempting.spares_unknown_groups;
  return spared;
}

void CardPreemption::choose(const Preempting& preempting) {
  auto slot = choosing_.reserve();
  if (!slot || ++preempting->choices > kPreemptChoicesMax) return;
  choosing_.run(std::move(slot), [this, preempting, spared = spared(*preempting)] {
    auto chosen = preempt_by_card(preempting->pods, preempting->preemptor.nodes, spared,
                                  preempting->answers, context_, executor_.now());
    if (!chosen) return;
    preempting->answers = chosen->answers;  // it may choose again
    const auto eviction = std::make_shared<Eviction>(Eviction{preempting, *std::move(chosen)});
    executor_.post(callbacks_.wrap([this, eviction] { check_groups(eviction); }));
  });
}

void CardPreemption::check_groups(const Evicting& eviction) {
  bool again = false;
  for (const ChosenVictims::Victim& victim : eviction->chosen.victims) {
    if (victim.group.empty()) continue;
    const auto group = groups_.find(victim.group);
    if (group == groups_.end()) return read_group(victim.group, eviction);
    again |= group->second.evicted_together;
  }
  if (!again) return begin(eviction);
  eviction->of->spares_unknown_groups = true;
  choose(eviction->of);
}

void CardPreemption::read_group(const std::string& group, const Evicting& eviction) {
  if (++eviction->of->group_reads > kPreemptGroupReadsMax) return;
  const auto on_group = [this, group, eviction](const kube::ApiResult<kube::PodGroup>& read) {
    const bool gone = !read && read.error().kind == Kind::kNotFound;
    if (!read && !gone) events_.on_problem(read.error().message);
    const auto until = [](const auto& known) { return known.second.until; };
    if (groups_.size() >= kPreemptGroupsMax)
      groups_.erase(std::ranges::min_element(groups_, {}, until));
    groups_[group] = {read ? read->evicted_together : !gone, executor_.now() + kPreemptGroupLife};
    check_groups(eviction);
  };
  const std::size_t slash = group.find('/');
  client_.get_pod_group({group.substr(0, slash), group.substr(slash + 1)}, kPreemptTimeout,
                        callbacks_.wrap(on_group));
}

void CardPreemption::begin(const Evicting& eviction) {
  {
    const Instant now = executor_.now();
    const MutexLock lock(mutex_);
    if (!preemptors_.begin(eviction->of->preemptor.uid, now,
                           now + context_.settings.nomination_life))
      return;
  }
  nominate_next(eviction);
}

void CardPreemption::nominate_next(const Evicting& eviction) {
  if (eviction->all_nominated()) {
    say_why(*eviction);
    return evict_next(eviction);
  }
  const ChosenVictims::Preemptor& next = eviction->pod();
  const auto on_nominated = [this, eviction](const kube::ApiResult<void>& nominated) {
    if (!nominated) return fail(eviction, nominated.error());
    ++eviction->nominated;
    nominate_next(eviction);
  };
  client_.write(in_time(kube::nominate(next.pod, next.node)),
                "nominate pod " + to_string(next.pod.ref()), callbacks_.wrap(on_nominated));
}

void CardPreemption::say_why(const Eviction& eviction) {
  const std::size_t victims = eviction.chosen.victims.size();
  const std::size_t pods = eviction.chosen.pods.size();
  for (const auto& [pod, node] : eviction.chosen.pods) {
    const std::string where = pods == 1 ? fmt::format("on node {}", node.str())
                                        : fmt::format("for the {} pods of its group", pods);
    recorder_.on_pod(pod.ref(), pod.uid(),
                     {kube::Event::Type::kNormal, "MGPUPreempting",
                      fmt::format("no node has a card with enough that is free: {} pod{} of lower "
                                  "priority are evicted {}",
                                  victims, victims == 1 ? "" : "s", where)});
  }
}

void CardPreemption::evict_next(const Evicting& eviction) {
  if (eviction->evicted == eviction->chosen.victims.size()) return end(eviction);
  if (!events_.decides())
    return fail(eviction, {Kind::kUnavailable, "this process no longer decides about pods"});
  events_.confirm(callbacks_.wrap([this, eviction](const kube::ApiResult<void>& held) {
    if (held) return mark_victim(eviction);
    // Another process evicts now.
    if (held.error().kind == Kind::kRefused && !events_.decides()) return end(eviction);
    try_again(eviction, held.error());
  }));
}

void CardPreemption::mark_victim(const Evicting& eviction) {
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

std::string CardPreemption::preemptor_text(const Eviction& eviction) {
  const kube::Pod& pod = eviction.chosen.pods.front().pod;
  const std::string group = group_name(pod);
  return group.empty() ? "pod " + pod.uid().str() : "group " + group;
}

void CardPreemption::delete_victim(const Evicting& eviction) {
  const ChosenVictims::Victim& victim = eviction->victim();
  const auto on_deleted = [this, eviction, victim](const kube::ApiResult<void>& deleted) {
    if (!deleted && !has_changed(deleted.error())) return try_again(eviction, deleted.error());
    if (deleted) {
      log_info("evicted a pod for one of higher priority",
               {{"pod", to_string(victim.pod)},
                {"node", victim.node.str()},
                {"for", to_string(eviction->chosen.pods.front().pod.ref())}});
      recorder_.on_pod(victim.pod, victim.uid,
                       {kube::Event::Type::kNormal, "Preempted",
                        fmt::format("Preempted by {} on node {}", preemptor_text(*eviction),
                                    victim.node.str())});
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
  if (eviction->all_nominated() && spared_.size() < kPreemptSparedMax)
    spared_[eviction->victim().uid] = until;
  if (++refusals_ < kPreemptRefusalsMax) return;
  refusals_ = 0;
  paused_until_ = until;
}

void CardPreemption::fail(const Evicting& eviction, const kube::ApiError& problem) {
  if (!has_changed(problem)) {
    events_.on_problem(problem.message);
    if (problem.kind == Kind::kRefused) note_refusal(eviction);
  }
  {
    const MutexLock lock(mutex_);
    preemptors_.not_evicting(eviction->of->preemptor.uid);
  }
  if (eviction->evicted > 0) return end(eviction);
  // Whether the last one is nominated may not be known.
  std::size_t nominated = eviction->nominated;
  if (!eviction->all_nominated() && problem.kind == Kind::kUnknown) ++nominated;
  // Where the pods of a group have changed, they may be bound now, with cards that are reserved.
  const bool free = eviction->chosen.pods.size() == 1 || !has_changed(problem);
  for (std::size_t i = 0; i < eviction->chosen.pods.size(); ++i) {
    const ChosenVictims::Preemptor& chosen = eviction->chosen.pods[i];
    if (free) {
      context_.ledger.reservations().offer_nomination({chosen.pod.uid(), chosen.pod.priority}, {},
                                                      NodeName(), executor_.now());
    }
    if (i < nominated) take_back(chosen);
  }
}

// kube-scheduler may have nominated the pod for another node since then, or bound it.
void CardPreemption::take_back(const ChosenVictims::Preemptor& nominated) {
  const auto on_pod = [this, nominated](const kube::ApiResult<kube::Pod>& pod) {
    const bool stays = pod && pod->uid() == nominated.pod.uid() && pod->node_name.empty() &&
                       pod->nominated_node == nominated.node.str();
    if (!stays) return;
    client_.write(in_time(kube::nominate(*pod, NodeName())),
                  "take back the nomination of pod " + to_string(pod->ref()), [](const auto&) {});
  };
  client_.get_pod(nominated.pod.ref(), kPreemptTimeout, callbacks_.wrap(on_pod));
}

void CardPreemption::end(const Evicting& eviction) {
  if (eviction->evicted > 0) events_.on_ended(eviction->evicted);
}

}  // namespace mgpu::extender
