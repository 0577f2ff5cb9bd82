// The extender as kube-scheduler sees it: its verbs by HTTP message, over a link to the API server.
// The same parts as in extender/extender.h, without a socket and without the thread that refreshes
// prices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/callback_guard.h"
#include "common/base/metrics.h"
#include "common/http/router.h"
#include "common/kube/client.h"
#include "extender/bind/binder.h"
#include "extender/bind/holder_lease.h"
#include "extender/bind/start_sequence.h"
#include "extender/card_preemption.h"
#include "extender/election/leader_election.h"
#include "extender/election/leader_endpoints.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/pending_events.h"
#include "extender/probe.h"
#include "extender/requeue/requeue.h"
#include "extender/watches.h"
#include "test/simulation/link.h"

namespace mgpu::simulation {

// Of all processes.
inline const kube::ObjectRef kExtenderLease{"kube-system", "mgpu-extender"};
inline const kube::ObjectRef kExtenderService{"kube-system", "mgpu-extender"};

class ExtenderProcess {
 public:
  struct Setup {
    std::string identity;  // differs from that of all other processes
    // An observer reads, and does not take the Lease.
    bool is_observer = false;
    bool preempts_by_card = false;
    // Set: it is one of several replicas.
    std::optional<extender::ElectionOptions> election{};
    // The Service has the endpoint of the leader.
    bool has_service = false;
    std::uint16_t port = 0;  // of its endpoint
    // Of its wall clock, which outlives the process, against the true time.
    const Duration* clock_offset = nullptr;
    std::function<void()> on_lease_lost = [] {};  // called once; the owner ends the process then
    Link::OnServed on_served{};
  };
  ExtenderProcess(kube::MemoryApiServer& server, FaultQueue& faults, const Contract& contract,
                  Setup setup);
  ~ExtenderProcess();

  // It decides.
  bool ready() const {
    const bool may_bind =
        start_sequence_.done() && !lease_.lost() && !preconditions_.ignored() && !draining_;
    return (may_bind || setup_.is_observer) && watches_.listed();
  }
  // It waits for the Lease, and could lead.
  bool follows() const { return election_ && start_sequence_.taking() && watches_.listed(); }
  // It has taken the Lease, and believes that it holds it.
  bool leads() const { return has_led_ && !lease_.lost(); }
  // It does not know what has happened to pods lately.
  bool watches_are_late() const;
  // Its connection to the API server, but not the one that renews the Lease.
  Link& link() { return link_; }
  const extender::Ledger& ledger() const { return ledger_; }

  // `done` gets the status and the body.
  void call(const std::string& verb, std::string body,
            std::function<void(int status, const std::string& body)> done);

  // The process, or its machine with its clock, does not run for `time`. One that hangs answers no
  // verb and does nothing else, but what renews the Lease runs.
  enum class Stop : std::uint8_t { kFrozen, kPaused, kHung };
  void stop(Stop stop, Duration time);
  // It stops when it sends the next bind, which it then sends at the end.
  void stop_at_next_bind(Stop stop, Duration time);
  // When it was stopped last, or will run again.
  Instant stopped_until() const { return stopped_until_; }
  // Neither connection to the API server works for `time`.
  void cut(Link::Cut cut, Duration time);
  // Refuses the verbs, answers those that it has, and gives the Lease up. `done` is called at the
  // end.
  void shut_down(std::function<void()> done);

 private:
  std::optional<extender::LeaderElection> make_election();
  std::string wall_clock();
  void acquire_lease(extender::HolderLease::Done done);
  void drain(Instant end);
  void on_lease_taken();
  void release_lease();
  void end_shutdown();
  void refuse_verb(const http::Respond& respond);
  void on_started();
  void on_listed();

  const Setup setup_;
  Executor& world_;
  Instant stopped_until_{};
  Link link_;
  Link election_link_;
  extender::VerbOptions options_;
  Metrics metrics_;
  Heartbeat work_{link_.executor()};
  extender::Ledger ledger_;
  extender::DisruptionBudgets budgets_;
  extender::CurrentPrices prices_;
  extender::WorkloadWindow window_;
  const extender::VerbContext verb_context_{options_, ledger_, budgets_, prices_, &window_};
  extender::Probe probe_{metrics_, ledger_.reader()};
  kube::Client client_{link_};
  extender::HolderLease lease_;
  extender::HolderLease::Done lease_acquired_;
  bool has_led_ = false;
  CallbackGuard callbacks_;
  std::optional<extender::LeaderElection> election_;
  extender::LeaderEndpoints endpoints_;
  extender::PodTouch touch_;
  extender::PreconditionCheck preconditions_{client_};
  extender::Binder binder_;
  extender::Requeue requeue_;
  extender::PendingEvents pending_events_;
  extender::CardPreemption card_preemption_;
  bool has_endpoint_ = false;
  bool draining_ = false;
  int calls_ = 0;  // that have no answer yet
  std::function<void()> shut_down_;
  extender::StartSequence start_sequence_;
  extender::Watches watches_{
      {link_, verb_context_, binder_, budgets_, requeue_, probe_, [this] { on_listed(); }}};
  http::Router router_;
};

}  // namespace mgpu::simulation
