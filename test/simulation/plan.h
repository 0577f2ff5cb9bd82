// What happens to the simulated cluster from outside: users, failures of machines and processes,
// and faults of single requests. A plan is a list of events, so that a history that fails can be
// repeated without some of them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "test/simulation/link.h"

namespace mgpu::simulation {

enum class Action : std::uint8_t {
  // Users. `who` is the number of a pod.
  kCreatePod,        // `what` selects its request, `amount` its priority
  kDeletePod,        //
  kRecreatePod,      // deletes it at once, and creates one with the same name; by `what` it does
                     // so with all pods of node `who`, whose plugin learns of it late
  kFinishPod,        // its containers end by themselves
  kEditCards,        // changes the index annotation of a container
  kEditMultipleGpu,  // changes container-multiple-gpu
  kCreateOnNode,     // creates a pod with spec.nodeName; `what` selects the node
  kCreateForged,     // the same, with index annotations
  // Machines and processes. `who` is the number of a node where there are several.
  kKillExtender,
  kReplaceExtender,  // another one starts while it is frozen for a time by `amount`; then it goes
                     // on
  kKillScheduler,
  kKillPlugin,
  kRestartKubelet,
  kFreeze,           // `who` selects the client, `amount` the time
  kPauseVm,          // the same, and its clock stands still
  kPowerLoss,        // by `what` after somebody has exchanged the cards of its pods
  kReplacePlugin,    // a second process of the plugin starts; one of them by `what` ends later
  kCrashContainers,  // of a pod that runs; `what` selects it
  kEndMps,           // the MPS daemon of card `what`, and its clients; it starts again by `amount`
  kRestartServices,  // the plugin, kubelet and MPS, when containers crash: kubelet starts them
                     // again
                     // before it knows the plugin
  kPutSpecBack,      // a program that is not ours replaces the CDI spec by an old one
  kDiskFails,        // `amount` is the time
  kCardFails,        // `what` is the card
  kCardRecovers,
  kRemoveNode,  // the Node object; kubelet creates it again
  // The API server and the network. `who` selects the client, `what` the kind of the fault.
  kFault,        // of the next `amount` + 1 requests
  kFaultOfBind,  // of the next `amount` % 3 + 1 binds
  kRelist,       // the watches of the extender end, and their history is gone
  kLateBind,     // the next bind is served seconds later; the extender is killed
  kBreakWatches,
  kLagWatches,  // `amount` is the time
  kCompact,
  // Only with two replicas of the extender. `who` selects one, if nothing else is said.
  kKillReplica,
  kKillReplicas,  // both
  kShutDownReplica,
  kStopReplica,       // like kFreeze or kPauseVm by `what`, and for longer
  kStopLeaderInBind,  // the same, when the leader sends the next bind, which it then sends at the
                      // end
  kHangLeader,        // all of it but what renews the Lease; for longer
  kHoldBind,          // the next bind waits in an API server that is stopped; the leader is killed
  kCutFromApi,        // `what` selects what happens to its requests
  kCutFromScheduler,
  kMoveClock,  // by an hour
  kMisroute,   // kube-scheduler's requests reach any replica
  // Only with groups.
  kCreateGroup,   // `what` selects the number of its pods and what they request, `amount` their
                  // priority
  kDeleteGroup,   // all pods of group `who`
  kDeleteMember,  // one pod of group `who`, by `what`
};
inline constexpr int kActions = static_cast<int>(Action::kDeleteMember) + 1;

struct Event {
  Duration at{0};
  Action action = Action::kCreatePod;
  int who = 0;
  int what = 0;
  int amount = 0;
};

inline constexpr int kNodes = 3;
inline constexpr int kCardsPerNode = 2;
inline constexpr int kPodNames = 24;
// Processes with a connection to the API server: the extender, kube-scheduler, and the plugin and
// kubelet of each node.
inline constexpr int kClients = 2 + 2 * kNodes;
// Of the replica of the extender that does not lead, where there are two.
inline constexpr int kFollowerClient = kClients;

// What the cluster of a history is like.
struct Setting {
  // The policies of deploy/manifests hold.
  bool has_policies = true;
  int replicas = 1;  // of the extender
  // Each kube-scheduler calls the replica on its machine; otherwise it calls a Service.
  bool is_beside_scheduler = false;
  bool has_short_lease = false;
  // Until the faults end, the extender can neither change some pods nor bind the first pod of the
  // cluster by name: refusal_of() in link.h.
  bool has_refused_objects = false;
  // Users create groups of pods. Only with the policies: a pod that its creator has bound takes
  // cards that were promised to another one.
  bool has_groups = false;
  // The extender evicts pods where the sums of a node suffice and no card does.
  bool preempts_by_card = false;
  // There are users and no faults, so that it is known what an eviction was for.
  bool is_calm = false;
};
Setting setting_of(std::uint64_t seed);

// The plan of one history: 200 events, at least 20 new pods and, unless it is calm, 3 faults of
// binds, in order of time. With groups there are 120 more events, which are about them.
std::vector<Event> plan_of(std::uint64_t seed);

// What happens to a request in the events kFault and kFaultOfBind.
Fault fault_of(const Event& event);

// How many pods the group of kCreateGroup has: from 2 to 64, mostly up to 8. One of eight has one
// pod more than it needs.
int members_of(const Event& event);
int min_count_of(const Event& event);

// Whether no pod is evicted for the pods of kCreatePod or kCreateGroup.
bool never_preempts(const Event& event);

// Whether the group of kCreateGroup is one of the plugin Coscheduling, with a label.
bool is_by_label(const Event& event);

// How long a process is stopped in kFreeze, kPauseVm and kReplaceExtender.
Duration stop_of(const Event& event);

// Shorter and longer than a Lease lasts: for kStopReplica, kStopLeaderInBind, kHangLeader,
// kHoldBind, kReplacePlugin, and the two that cut a replica off.
Duration long_stop_of(const Event& event);

// Whether the event is about the follower.
bool is_of_follower(const Event& event);

// What happens to the requests of a replica in kCutFromApi.
Link::Cut cut_of(const Event& event);

// How much later the leader is killed in kHoldBind.
Duration kill_after(const Event& event);

// Whether kRecreatePod is about all pods of a node.
bool recreates_all(const Event& event);

// Whether the cards of pods are exchanged before kPowerLoss, where no policy prevents it.
bool exchanges_cards(const Event& event);

// For how long kDiskFails, kEndMps, kRestartServices, kLagWatches, kMisroute and the blindness of
// the plugin in kRecreatePod last.
Duration failure_of(const Event& event);

// Whether the second process is the one that ends in kReplacePlugin, as by mistake. In an upgrade
// the first one does.
bool successor_ends(const Event& event);

// Whether a process is paused with its machine, or frozen.
bool pauses(const Event& event);

// "12.345 s: kill the extender"
std::string text_of(const Event& event);

}  // namespace mgpu::simulation
