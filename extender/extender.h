// The extender as one object: ledger, reflectors, verbs, inspection and the HTTP server, over any
// Transport. main.cc runs it over libcurl; mgpu-sim and the tests run it over the in-memory API
// server.
//
//   Starting (listening, /readyz 503) --nodes, pods and budgets listed--> Ready --drain()-->
//   Draining
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/asio_executor.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/kube/client.h"
#include "common/kube/transport.h"
#include "common/program/service_routes.h"
#include "extender/bind/binder.h"
#include "extender/learning/price_refresher.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/probe.h"
#include "extender/requeue/rejection_delay.h"
#include "extender/requeue/scheduler_requeue.h"
#include "extender/verbs/verbs.h"
#include "extender/watched.h"

namespace mgpu::extender {

struct ExtenderSettings {
  Settings verbs;  // the price snapshots and the window are set by Extender::start
  http::ServerOptions http;
  std::string url_prefix = "/mgpu";  // of the verbs; starts with "/", and does not end with it
  std::size_t binds_in_flight = kBindsInFlight;
  std::string requeue_namespace;  // of the object that SchedulerRequeue writes; empty: none
};

class Extender {
 public:
  // When it returns, the server listens and the reflectors have started to list. `transport`
  // outlives the extender. Errors: those of http::Server::start.
  static Result<std::unique_ptr<Extender>> start(ExtenderSettings settings,
                                                 kube::Transport& transport);
  // Drains, then ends. REQUIRES: not on the transport's executor, which still runs.
  ~Extender() { drain(); }

  std::uint16_t port() const { return server_->port(); }
  bool ready() const { return listed() && !draining_; }
  // Ends readiness and starts to drain the server; the destructor waits for its end.
  void drain();

 private:
  Extender(ExtenderSettings settings, kube::Transport& transport, CurrentPrices& prices);

  Result<void> start_server();
  void add_routes();
  bool listed() const;
  void on_listed();
  void on_cluster_change() { rejection_delay_.observe(ledger_.releases()); }
  Readiness readiness() const;
  void update_metrics();

  // A member may use those above it, and ends before them.
  const ExtenderSettings settings_;
  kube::Transport& transport_;
  Metrics metrics_;
  Ledger ledger_;
  DisruptionBudgets budgets_;
  Probe probe_{metrics_, ledger_};
  kube::Client client_{transport_};
  Binder binder_;
  RejectionDelay rejection_delay_{transport_.executor()};
  SchedulerRequeue requeue_;
  PriceRefresher price_refresher_;
  std::atomic<bool> draining_ = false;
  Watched watched_nodes_;
  Watched watched_pods_;
  Watched watched_budgets_;
  const std::array<Watched*, 3> watched_ = {&watched_nodes_, &watched_pods_, &watched_budgets_};
  AsioExecutor inspections_;  // for the views of /inspect alone
  http::Router router_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace mgpu::extender
