// Writes Events MGPUPending on pods that request cards and have been pending for half a minute:
// what they need, the most that there is, and the nearest help, for users who may not read
// /inspect. pending_pods.h says when. kube-scheduler asks filter only about nodes whose totals
// suffice, so the pending pods are watched. Only the process that decides writes; one that begins
// to decide writes what it finds, also what another one has written.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/kube/client.h"
#include "common/kube/event_recorder.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"
#include "common/kube/watch/reflector.h"
#include "extender/inspect/inspections.h"
#include "extender/pending_pods.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

inline constexpr std::chrono::milliseconds kPendingPollInterval{5'000};
inline constexpr std::chrono::milliseconds kPendingReadTimeout{5'000};
// Steps of one explanation: as many for the reasons of all nodes as for what is nearest, 40 ms
// each.
inline constexpr std::uint32_t kPendingStepsMax = 2'000'000;
inline constexpr std::chrono::milliseconds kPendingTimeMax{200};

class PendingEvents {
 public:
  // All references outlive it. It explains on `explaining`, and does all else on the executor of
  // `transport`, where `decides` is called. Events name `process` as their host.
  PendingEvents(const VerbContext& context, kube::Transport& transport, Executor& explaining,
                const std::string& process, std::function<bool()> decides);

  // Begins to watch and to poll. Once.
  void start();
  // The pods that are watched. On the executor of `transport`.
  const PendingPods& pods() const { return pods_; }
  // Events that were not sent at once, or whose request failed. Any thread.
  std::uint64_t dropped() const { return recorder_.dropped(); }

 private:
  // A pod of the watch, as it is needed here; not pending if more than room keeps it from being
  // bound.
  struct Seen {
    PendingPods::Pending pod;
    bool pending = false;
    bool names_cards = false;
  };

  kube::Consumer<Seen> consumer();
  Result<Seen> seen(const Result<kube::Pod>& pod) const;
  void apply(const Seen& seen);
  void poll_later();
  void poll();
  void explain(const kube::Pod& pod);

  const VerbContext& context_;
  Executor& executor_;
  const std::function<bool()> decides_;
  kube::Client client_;
  kube::EventRecorder recorder_;
  PendingPods pods_;  // on the executor
  CallbackGuard callbacks_;
  Inspections explaining_;
  kube::Reflector reflector_;  // ends first
};

}  // namespace mgpu::extender
