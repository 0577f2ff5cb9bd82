// The extender as kube-scheduler sees it: its verbs by HTTP message, over a link to the API server.
// The same parts as in extender/extender.h, without a socket and without the thread that refreshes
// prices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/metrics.h"
#include "common/http/router.h"
#include "common/kube/client.h"
#include "extender/bind/binder.h"
#include "extender/bind/holder_lease.h"
#include "extender/bind/start_sequence.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/probe.h"
#include "extender/requeue/rejection_delay.h"
#include "extender/requeue/scheduler_requeue.h"
#include "extender/watched.h"
#include "test/simulation/link.h"

namespace mgpu::simulation {

class ExtenderProcess {
 public:
  // An observer reads, and does not take the Lease.
  enum class Role : std::uint8_t { kExtender, kObserver };
  // `identity` differs between processes. `on_lease_lost` is called once; the
  // owner ends the process then.
  ExtenderProcess(kube::MemoryApiServer& server, FaultQueue& faults, const Contract& contract,
                  std::string identity, Role role, std::function<void()> on_lease_lost);
  ~ExtenderProcess();

  bool ready() const {
    const bool may_bind = start_sequence_.done() && !lease_.lost();
    return (may_bind || role_ == Role::kObserver) && nodes_.listed() && pods_.listed();
  }
  Link& link() { return link_; }
  const extender::Ledger& ledger() const { return ledger_; }

  // `done` gets the status and the body.
  void call(const std::string& verb, std::string body,
            std::function<void(int status, const std::string& body)> done);

 private:
  void on_change() { rejection_delay_.observe(ledger_.releases()); }

  const Role role_;
  Link link_;
  extender::Settings settings_;
  Metrics metrics_;
  extender::Ledger ledger_;
  extender::DisruptionBudgets budgets_;
  extender::Probe probe_{metrics_, ledger_};
  kube::Client client_{link_};
  extender::HolderLease lease_;
  extender::PodTouch touch_;
  extender::PreconditionCheck preconditions_{client_};
  extender::Binder binder_;
  extender::RejectionDelay rejection_delay_{link_.executor()};
  extender::SchedulerRequeue requeue_;
  extender::StartSequence start_sequence_;
  extender::Watched nodes_;
  extender::Watched pods_;
  extender::Watched budgets_watch_;
  extender::Watched nominations_;
  http::Router router_;
};

}  // namespace mgpu::simulation
