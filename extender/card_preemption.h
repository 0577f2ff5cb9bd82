// Preemption by card: evicts pods of lower priority for a pod that filter has refused on every
// node, where kube-scheduler evicts none, because the sums of a node suffice and no card does. The
// choice is that of preempt_by_card (verbs/verbs.h); preemptors.h says when, and spared_victims.h
// without which pods. What kube-scheduler does for its victims (kubernetes
// pkg/scheduler/framework/preemption/executor.go) is done here; card_eviction.h has the steps after
// the choice:
//
//   GET pods --pending--> choose --> PATCH nominatedNodeName --> for each victim: PATCH
//      |                     |              |                    DisruptionTarget, DELETE, Event
//      +--changed------------+--no victims--+--409: changed--> (end)
//
// The nomination comes first, so that no pod is evicted for one that is bound meanwhile. A victim
// that cannot be deleted ends the preemption; filter refuses the pod again, and those that have not
// ended are chosen again. Where the first one cannot be deleted, the nomination is taken back. Only
// the process that decides evicts: before each victim it reads the Lease, as binds do.
//
// The pods of a PodGroup whose disruptionMode is {all: {}} are spared: kube-scheduler evicts them
// together or not at all, and those without cards are not known here. The groups of the victims
// are read after the choice. If one is such a group, there is another choice without it, and
// without all groups that are not known, so that many of them do not keep others from being chosen.
//
// kube-scheduler evicts no pods either for the members of a group of which one is refused
// (podgrouppreemption.go). All of them that are pending are read, and one choice is made for all:
// each is nominated, one after another, before the first victim is evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/event_recorder.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"
#include "extender/card_eviction.h"
#include "extender/inspect/inspections.h"
#include "extender/pending_pods.h"
#include "extender/preemptors.h"
#include "extender/spared_victims.h"
#include "extender/verbs/verbs.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

// Groups that are read for one preemptor; the next time, the others are.
inline constexpr int kPreemptGroupReadsMax = 64;
// Choices of victims for one preemptor.
inline constexpr int kPreemptChoicesMax = 8;
// The pods of a group for which others are evicted. A larger one waits until it fits.
inline constexpr std::size_t kPreemptMembersMax = 64;

class CardPreemption {
 public:
  // The pending pods of a group; none if they are not known, or are more than `most`.
  using Members =
      std::function<std::vector<PendingPods::Pending>(const std::string& group, std::size_t most)>;

  // All references outlive it. It chooses on `choosing`, and does all else on the executor of
  // `transport`, where `events` and `members` are called. Its Events name `process` as their host.
  CardPreemption(const VerbContext& context, kube::Transport& transport, Executor& choosing,
                 const std::string& process, CardEviction::Events events, Members members);

  // Begins to poll. Once. Without it nothing is evicted.
  void start();
  // Notes what filter has answered. Any thread; so is each below.
  void on_filter(const kube::Pod& pod, const FilterReply& reply);
  // Returns whether preempt should answer no victims, since pods are evicted for this one, or its
  // group, already.
  bool is_evicting(const kube::Pod& pod);
  // Notes that preempt has answered with victims.
  void on_preempted(const kube::Pod& pod);
  // Events that were not sent at once, or whose request failed.
  std::uint64_t events_dropped() const { return recorder_.dropped(); }

 private:
  // A preemptor whose pods are read, and what was chosen for them.
  struct Reading {
    Preemptors::Preemptor preemptor;
    std::size_t left = 0;
    std::vector<kube::Pod> pods;  // that are pending
    std::uint64_t answers = 0;    // of the ledger, before they were read
    int choices = 0;
    int group_reads = 0;
    bool spares_unknown_groups = false;
    ChosenVictims chosen{};  // by the last choice
  };
  using Preempting = std::shared_ptr<Reading>;

  void poll_later();
  void poll();
  bool has_lower_priorities(const Preemptors::Preemptor& pod) const;
  void read(const Preemptors::Preemptor& preemptor);
  void choose(const Preempting& preempting);
  void check_groups(const Preempting& preempting);
  void read_group(const std::string& group, const Preempting& preempting);
  void begin(const Preempting& preempting);

  const VerbContext& context_;
  Executor& executor_;
  const Members members_;
  kube::Client client_;
  kube::EventRecorder recorder_;
  SparedVictims spared_;  // on the executor
  bool polls_ = false;
  mutable Mutex mutex_;
  Preemptors preemptors_ MGPU_GUARDED_BY(mutex_);
  const CardEviction::Context eviction_context_;  // used by callbacks until they are closed
  CallbackGuard callbacks_;
  Inspections choosing_;  // ends first
};

}  // namespace mgpu::extender
