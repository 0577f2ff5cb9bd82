// Bounds of the ledger, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::extender {

// Names of nodes that have had the annotation of their cards. More than a cluster has; nodes of
// other names have cards by their capacity if they have no annotation.
inline constexpr std::size_t kAnnotatedNodesMax = 65'536;

// The life of an expected placement: longer than any gap observed between filter and bind.
inline constexpr std::chrono::milliseconds kExpectedPlacementLife{1'000};
inline constexpr std::size_t kExpectedPlacementsMax = 4096;
// How long cards are reserved for a pod that preempts, from the answer on. Most victims end within
// their grace period of 30 seconds. A pod that needs longer may lose its cards to another one,
// which is better than cards that stay unused for a pod that does not come.
inline constexpr std::chrono::milliseconds kNominationLife{300'000};
// How long cards are reserved for a pod that kube-scheduler has chosen a node for: as long as it
// waits for the pod's volumes (bindTimeoutSeconds).
inline constexpr std::chrono::milliseconds kReservationLife{600'000};
// How long cards are reserved at once for a pod that is to be nominated, until the watch shows that
// it is.
inline constexpr std::chrono::milliseconds kNominationSeen{10'000};
// A pod that is being deleted with a longer grace period may hold its cards for ever: no other pod
// waits for it.
inline constexpr std::int32_t kEndsSoonSeconds = 300;
// The pods between filter and bind, and those that preempt. Beyond that the least important lose
// their reservation first.
inline constexpr std::size_t kNominationsMax = 1'024;
inline constexpr std::size_t kNominationsOfNamespaceMax = 256;
// How long the members of a group keep the cards of one of them at most, since it was answered.
// kube-scheduler asks about a member in some 10 ms.
inline constexpr std::chrono::milliseconds kGroupReservationLife{30'000};
// How long the cards of a member are kept after another one was bound, or whose bind has failed for
// a reason that may pass, or after a start while a part of its group is bound: after a restart of
// the API server, kube-scheduler may try no pod for half a minute.
inline constexpr std::chrono::milliseconds kGroupRetryLife{60'000};
// How long binds that fail again and again may prolong this, from the first one on: a tenant can
// make each bind of its pod fail by changing the pod meanwhile.
inline constexpr std::chrono::milliseconds kGroupRetriesLife{300'000};
// How long a pod that waited for the cards of groups comes first once they keep them no longer:
// kube-scheduler tries it again after a requeue and at most 10 seconds of back-off.
inline constexpr std::chrono::milliseconds kTurnLife{15'000};
// How long other groups whose cards the pod waits for may prolong this.
inline constexpr std::chrono::milliseconds kTurnsLife{120'000};
// kube-scheduler proposes at least 100 nodes if there are so many, and at most a tenth of all.
inline constexpr std::size_t kNominatedNodesMax = 128;
// Objects of a relist that are applied under one hold of the ledger's lock: a millisecond or two.
inline constexpr std::size_t kRelistStep = 256;
// Steps (placement/limits.h) for which decisions hold the ledger's lock at a time: 40 us. One node
// may take a few hundred steps more.
inline constexpr std::uint32_t kHoldStepsMax = 2'000;
// Decisions that take more steps than this are made about a copy of the node, without the lock. To
// copy a node takes kCopySteps for each card.
inline constexpr std::uint32_t kLockedDecisionStepsMax = 64;
inline constexpr std::uint32_t kCopySteps = 4;
// Steps that decisions about pods of several containers may take, for each namespace: 20 ms of each
// second, and 60 ms at once, which one filter may take. A pod of four containers takes some 1,000
// on a node by a policy with prices, and one without them some 100.
inline constexpr std::uint32_t kSearchStepsPerMs = 1'000;
inline constexpr std::uint32_t kSearchStepsSaved = 3'000'000;
// What a decision has in any case: 0.1 ms.
inline constexpr std::uint32_t kSearchStepsLeast = 5'000;
// Namespaces that have used any of these lately. With more, all have them again.
inline constexpr std::size_t kSearchAccountsMax = 1'024;
// Nodes that are copied at one time.
inline constexpr std::size_t kNodeCopiesMax = 32;
// How many nodes are counted or listed at a time under the lock, in some ten microseconds.
inline constexpr std::size_t kNodesHeldMax = 256;
// The changes of drift that a relist returns; each is a line of the log.
inline constexpr std::size_t kDriftChangesMax = 1'000;
// Distinct requests whose decisions are cached. Each takes some 40 bytes per node: 13 MB in all at
// 5,000 nodes, and 8 MB more while scores are prewarmed. Clusters have a few dozen distinct
// requests at a time.
inline constexpr std::size_t kRequestKeysMax = 64;
// The scores of a request are no longer prewarmed after this many price snapshots without a use.
inline constexpr int kIdleRefreshesMax = 8;

}  // namespace mgpu::extender
