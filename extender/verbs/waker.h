// Wakes kube-scheduler for refused pods that it may have forgotten: the second line behind
// HeldRefusals, which can hold for a moment only. Who and when is in wake_list.h.
//
// kube-scheduler takes no calls from an extender. But a pod that one has refused is tried again
// after any event of the kinds that it follows (kubernetes pkg/scheduler/framework/types.go,
// UnrollWildCardResource), CSIStorageCapacity among them. So one object of this kind is written at
// each wake. Its storage class does not exist: no volume is ever decided by it.
//
//   due ---> PATCH ---2xx---------------------------> woken
//              |---404---> POST ---2xx, 409---------> woken   (409: another has just written it)
//              |             +----other--> failed: again after 1 s, 2 s, ... 60 s
//              +---other------------------> failed
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/kube/client.h"
#include "extender/ledger/ledger.h"

namespace mgpu::verbs {

inline constexpr const char* kWakeObject = "mgpu-wake-kube-scheduler";

enum class WakeOutcome {
  kWoken,
  kRefused,  // no right, no such namespace: it takes somebody to change that
  kFailed,   // no answer, or one that may be another the next time
};

// On the client's executor.
struct WakerEvents {
  std::function<void(WakeOutcome outcome)> on_outcome;
  // Once for each new sentence in a row: what failed, and what to do.
  std::function<void(const std::string& problem)> on_problem;
};

// Thread-safe; no call waits.
class Waker {
 public:
  // `client` and `ledger` outlive it. The object is written in the namespace `space`; empty: nobody
  // is ever woken.
  Waker(kube::Client& client, const ledger::Ledger& ledger, std::string space, WakerEvents events);
  // Calls nobody after it.
  ~Waker();

  // kube-scheduler asks about the pod.
  void asked(const PodUid& uid);
  // It is told that no node fits, though news might help; decided on a ledger of `releases`.
  void refused(const PodUid& uid, std::uint64_t releases);
  // Bound, finished or deleted.
  void gone(const PodUid& uid);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::verbs
