// Writes Events about what people have to repair, which `kubectl describe` shows:
//
//   MGPUDrift              on a pod: its annotations and its cards do not agree
//   MGPUUnknownCardName    on a pod that was bound: its annotations name a model or UUID that no
//                          card has
//   MGPUCannotChangePod    on a pending pod: see bind/start_sequence.h
//   MGPUCardsOverfull      on a node: a card has more in use than its capacity
//   MGPUBadNodeAnnotation  on a node: an annotation about its cards cannot be read
//
// A finding is written when two polls in a row have it, since a card may seem overfull while the
// outcome of a bind is not known; and once more for each change of its text. That of a pod is
// written once for each kind of drift, however often the annotations are edited. Only the process
// that decides writes. A pod with unknown names is compared once, by the poll after its bind. One
// that begins to decide writes what it finds, also what another one has written.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/event_recorder.h"
#include "common/kube/transport.h"
#include "extender/bind/bindable_pod.h"
#include "extender/bind/start_sequence.h"
#include "extender/ledger/ledger_reader.h"

namespace mgpu::extender {

// The time between two polls of the ledger.
inline constexpr std::chrono::milliseconds kClusterEventsInterval{5'000};
// Events that one poll writes; the next polls write the others.
inline constexpr std::size_t kClusterEventsPerPoll = 8;
// Pods, and nodes, of which Events are written. Those beyond it have none until others are
// repaired.
inline constexpr std::size_t kClusterEventsFindingsMax = 1'000;
// Bound pods that wait for a poll to compare the names in their annotations. Others beyond it are
// not compared.
inline constexpr std::size_t kClusterEventsBoundMax = 1'000;

// The pods that were bound since the last poll and whose annotations name cards. On the executor.
class NamingPods {
 public:
  void add(const BindablePod& pod);

 private:
  friend class ClusterEvents;
  struct Pod {
    PodRef ref;
    PodUid uid;
    CardSelector selector;
  };
  std::deque<Pod> pods_;
};

class ClusterEvents {
 public:
  // All references outlive it, and its polls run on the executor of `transport`.
  // `decides` and `unsettled`, which returns pods that cannot be changed, are called there. Events
  // name `process` as their host.
  ClusterEvents(const LedgerReader& ledger, const Contract& contract, NamingPods& naming,
                kube::Transport& transport, const std::string& process,
                std::function<bool()> decides,
                std::function<std::vector<UnsettledPod>()> unsettled);

  // Begins to poll. Once.
  void start();
  // Events that were not sent at once, or whose request failed. Any thread.
  std::uint64_t dropped() const { return recorder_.dropped(); }

 private:
  struct Finding {
    std::string change;  // another value is another Event
    std::function<void()> write;
  };
  // A finding of the last poll.
  struct Known {
    std::string change;
    bool written = false;
  };
  using Findings = std::map<std::string, Finding>;  // by kind and object

  void poll();
  void find_pods(Findings& findings);
  void find_unsettled(Findings& findings);
  void find_nodes(Findings& findings);
  void compare_names();

  const LedgerReader& ledger_;
  const Contract& contract_;
  NamingPods& naming_;
  Executor& executor_;
  const std::function<bool()> decides_;
  const std::function<std::vector<UnsettledPod>()> unsettled_;
  kube::EventRecorder recorder_;
  // On the executor.
  std::map<std::string, Known> known_;
  bool logged_dropped_ = false;
  CallbackGuard polls_;  // ends first
};

}  // namespace mgpu::extender
