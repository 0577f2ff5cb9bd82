// One preemption by card, from the nominations to the last eviction; card_preemption.h has the
// diagram, and chooses the victims. It owns the choice, and how far it has come. Its callbacks own
// it, so that it ends with the last of them. On the client's executor.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "common/kube/event_recorder.h"
#include "extender/ledger/ledger.h"
#include "extender/spared_victims.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

inline constexpr std::chrono::milliseconds kPreemptTimeout{5'000};
// A mark or DELETE of one victim without an answer is repeated.
inline constexpr std::chrono::milliseconds kPreemptRetry{1'000};
inline constexpr int kPreemptTriesMax = 5;

class CardEviction : public std::enable_shared_from_this<CardEviction> {
 public:
  // Called on the executor of the transport.
  struct Events {
    std::function<bool()> decides;  // this process may evict
    // Reads the Lease: it still may (HolderLease::confirm).
    std::function<void(std::function<void(const kube::ApiResult<void>& held)>)> confirm;
    std::function<void(std::size_t victims)> on_ended;  // so many pods were evicted for one
    std::function<void(const std::string& problem)> on_problem;
  };
  // What all evictions share. It outlives the last callback of `callbacks`.
  struct Context {
    Ledger& ledger;
    kube::Client& client;
    kube::EventRecorder& recorder;
    SparedVictims& spared;
    const CallbackGuard& callbacks;
    Events events;
  };
  // `on_failed` is called if it ends because of a problem, and at most once.
  CardEviction(const Context& context, ChosenVictims chosen, std::function<void()> on_failed);

  // Nominates the pods one after another, and then evicts the victims.
  void nominate();

 private:
  const ChosenVictims::Victim& victim() const { return chosen_.victims[evicted_]; }
  bool all_nominated() const { return nominated_ == chosen_.pods.size(); }
  void say_why();
  void evict_next();
  void mark_victim();
  void delete_victim();
  void note_deleted();
  void try_again(const kube::ApiError& problem);
  void on_evicted();
  void fail(const kube::ApiError& problem);
  void take_back(const ChosenVictims::Preemptor& nominated);
  void end();

  const Context& context_;
  const ChosenVictims chosen_;
  const std::function<void()> on_failed_;
  std::size_t nominated_ = 0;  // of the pods
  std::size_t evicted_ = 0;    // of the victims
  int tries_ = 0;              // of the next victim
};

}  // namespace mgpu::extender
