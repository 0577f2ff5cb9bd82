// Preemption by card: evicts pods of lower priority for a pod that filter has refused on every
// node, where kube-scheduler evicts none, because the sums of a node suffice and no card does. The
// choice is that of preempt_by_card (verbs/verbs.h); preemptors.h says when. What kube-scheduler
// does for its victims (kubernetes pkg/scheduler/framework/preemption/executor.go) is done here:
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

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/event_recorder.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"
#include "extender/inspect/inspections.h"
#include "extender/pending_pods.h"
#include "extender/preemptors.h"
#include "extender/verbs/verbs.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

inline constexpr std::chrono::milliseconds kPreemptTimeout{5'000};
// A mark or DELETE of one victim without an answer is repeated.
inline constexpr std::chrono::milliseconds kPreemptRetry{1'000};
inline constexpr int kPreemptTriesMax = 5;
// A pod whose eviction the API server refuses, as a policy of the cluster may do, is spared for
// this long. After so many refusals one after another, which missing rights cause, no pod is looked
// at for this long.
inline constexpr std::chrono::milliseconds kPreemptRefusedPause{300'000};
inline constexpr std::size_t kPreemptRefusalsMax = 3;
inline constexpr std::size_t kPreemptSparedMax = 256;
// How long the answer about the group of a victim is used, and of how many groups.
inline constexpr std::chrono::milliseconds kPreemptGroupLife{300'000};
inline constexpr std::size_t kPreemptGroupsMax = 256;
// Groups that are read for one preemptor; the next time, the others are.
inline constexpr int kPreemptGroupReadsMax = 64;
// Choices of victims for one preemptor.
inline constexpr int kPreemptChoicesMax = 8;
// The pods of a group for which others are evicted. A larger one waits until it fits.
inline constexpr std::size_t kPreemptMembersMax = 64;

class CardPreemption {
 public:
  // On the executor of the transport.
  struct Events {
    std::function<bool()> decides;  // this process may evict
    // Reads the Lease: it still may (HolderLease::confirm).
    std::function<void(std::function<void(const kube::ApiResult<void>& held)>)> confirm;
    std::function<void(std::size_t victims)> on_ended;  // so many pods were evicted for one
    std::function<void(const std::string& problem)> on_problem;
    // The pending pods of a group; none if they are not known, or are more than `most`.
    std::function<std::vector<PendingPods::Pending>(const std::string& group, std::size_t most)>
        members;
  };

  // All references outlive it. It chooses on `choosing`, and does all else on the executor of
  // `transport`. Its Events name `process` as their host.
  CardPreemption(const VerbContext& context, kube::Transport& transport, Executor& choosing,
                 const std::string& process, Events events);

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
  using Pods = std::vector<kube::Pod>;

  // A preemptor whose pods are read.
  struct Reading {
    Preemptors::Preemptor preemptor;
    std::size_t left = 0;
    Pods pods;                  // that are pending
    std::uint64_t answers = 0;  // of the ledger, before they were read
    int choices = 0;
    int group_reads = 0;
    bool spares_unknown_groups = false;
  };
  using Preempting = std::shared_ptr<Reading>;

  struct VictimGroup {
    bool evicted_together = false;
    Instant until{};
  };

  // The pods are nominated one after another, and then the victims evicted.
  struct Eviction {
    Preempting of;
    ChosenVictims chosen;
    std::size_t nominated = 0;  // of the pods
    std::size_t evicted = 0;    // of the victims
    int tries = 0;              // of the next victim

    const ChosenVictims::Preemptor& pod() const { return chosen.pods[nominated]; }
    const ChosenVictims::Victim& victim() const { return chosen.victims[evicted]; }
    bool all_nominated() const { return nominated == chosen.pods.size(); }
  };
  using Evicting = std::shared_ptr<Eviction>;

  void poll_later();
  void poll();
  bool has_lower_priorities(const Preemptors::Preemptor& pod) const;
  void read(const Preemptors::Preemptor& preemptor);
  void choose(const Preempting& preempting);
  Spared spared(const Reading& preempting);
  void check_groups(const Evicting& eviction);
  void read_group(const std::string& group, const Evicting& eviction);
  void begin(const Evicting& eviction);
  void nominate_next(const Evicting& eviction);
  void say_why(const Eviction& eviction);
  static std::string preemptor_text(const Eviction& eviction);
  void evict_next(const Evicting& eviction);
  void mark_victim(const Evicting& eviction);
  void delete_victim(const Evicting& eviction);
  void try_again(const Evicting& eviction, const kube::ApiError& problem);
  void evicted(const Evicting& eviction);
  void note_refusal(const Evicting& eviction);
  void fail(const Evicting& eviction, const kube::ApiError& problem);
  void take_back(const ChosenVictims::Preemptor& nominated);
  void end(const Evicting& eviction);

  const VerbContext& context_;
  Executor& executor_;
  const Events events_;
  kube::Client client_;
  kube::EventRecorder recorder_;
  // On the executor.
  Instant paused_until_{};
  std::size_t refusals_ = 0;  // since the last eviction
  std::map<PodUid, Instant> spared_;
  std::map<std::string, VictimGroup> groups_;  // by "team/train"
  bool polls_ = false;
  mutable Mutex mutex_;
  Preemptors preemptors_ MGPU_GUARDED_BY(mutex_);
  CallbackGuard callbacks_;
  Inspections choosing_;  // ends first
};

}  // namespace mgpu::extender
