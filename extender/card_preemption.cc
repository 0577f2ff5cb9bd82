#include "extender/card_preemption.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/utc_text.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {
namespace {

// A group preempts as one.
PodUid preemptor_of(const kube::Pod& pod) {
  const std::string group = group_name(pod);
  return group.empty() ? pod.uid() : PodUid(group);
}

bool is_pending(const kube::Pod& pod) {
  return pod.node_name.empty() && pod.nominated_node.empty() && !pod.metadata.being_deleted &&
         !pod.gated && !pod.finished();
}

}  // namespace

CardPreemption::CardPreemption(const VerbContext& context, kube::Transport& transport,
                               Executor& choosing, const std::string& process,
                               CardEviction::Events events, Members members)
    : context_(context),
      executor_(transport.executor()),
      members_(std::move(members)),
      client_(transport),
      recorder_({.component = "mgpu-extender", .host = process}, transport, utc_now),
      eviction_context_{context.ledger, client_, recorder_, spared_, callbacks_, std::move(events)},
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
  if (spared_.all(now) || !eviction_context_.events.decides()) return;
  for (const Preemptors::Preemptor& preemptor : due)
    if (has_lower_priorities(preemptor)) read(preemptor);
}

void CardPreemption::read(const Preemptors::Preemptor& preemptor) {
  const auto members = preemptor.is_group
                           ? members_(preemptor.uid.str(), kPreemptMembersMax)
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

void CardPreemption::choose(const Preempting& preempting) {
  auto slot = choosing_.reserve();
  if (!slot || ++preempting->choices > kPreemptChoicesMax) return;
  choosing_.run(
      std::move(slot),
      [this, preempting, spared = spared_.at(executor_.now(), preempting->spares_unknown_groups)] {
        auto chosen = preempt_by_card(preempting->pods, preempting->preemptor.nodes, spared,
                                      preempting->answers, context_, executor_.now());
        if (!chosen) return;
        preempting->answers = chosen->answers;  // it may choose again
        preempting->chosen = *std::move(chosen);
        executor_.post(callbacks_.wrap([this, preempting] { check_groups(preempting); }));
      });
}

void CardPreemption::check_groups(const Preempting& preempting) {
  bool again = false;
  for (const ChosenVictims::Victim& victim : preempting->chosen.victims) {
    if (victim.group.empty()) continue;
    const auto together = spared_.evicted_together(victim.group);
    if (!together) return read_group(victim.group, preempting);
    again |= *together;
  }
  if (!again) return begin(preempting);
  preempting->spares_unknown_groups = true;
  choose(preempting);
}

void CardPreemption::read_group(const std::string& group, const Preempting& preempting) {
  if (++preempting->group_reads > kPreemptGroupReadsMax) return;
  const auto on_group = [this, group, preempting](const kube::ApiResult<kube::PodGroup>& read) {
    const bool gone = !read && read.error().kind == kube::ApiError::Kind::kNotFound;
    if (!read && !gone) eviction_context_.events.on_problem(read.error().message);
    spared_.add_group(group, read ? read->evicted_together : !gone, executor_.now());
    check_groups(preempting);
  };
  const std::size_t slash = group.find('/');
  client_.get_pod_group({group.substr(0, slash), group.substr(slash + 1)}, kPreemptTimeout,
                        callbacks_.wrap(on_group));
}

void CardPreemption::begin(const Preempting& preempting) {
  const PodUid& uid = preempting->preemptor.uid;
  {
    const Instant now = executor_.now();
    const MutexLock lock(mutex_);
    if (!preemptors_.begin(uid, now, now + context_.options.nomination_life)) return;
  }
  const auto on_failed = [this, uid] {
    const MutexLock lock(mutex_);
    preemptors_.not_evicting(uid);
  };
  std::make_shared<CardEviction>(eviction_context_, std::move(preempting->chosen), on_failed)
      ->nominate();
}

}  // namespace mgpu::extender
