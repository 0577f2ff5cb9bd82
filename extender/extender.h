// The extender as one object: ledger, reflectors, verbs, inspection and two HTTP servers, over any
// Transport. main.cc runs it over libcurl; mgpu-sim and the tests run it over the in-memory API
// server.
//
//   Starting (listening, /readyz 503) --start sequence done; nodes and pods listed--> Deciding
//   Deciding --drain()--> Draining
//   Deciding --another process holds the Lease--> Lost: it never decides again
//
// Where several replicas elect a leader, one that does not hold the Lease is a follower:
//
//   Starting --nodes and pods listed--> Following (/readyz 200, verbs 503) --Lease taken-->
//   Starting
//
// A follower keeps its ledger and learns the workload as the leader does. It lists the pods again
// after it has taken the Lease and has touched the pending pods.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/asio_executor.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/kube/client.h"
#include "common/kube/config/config.h"
#include "common/kube/curl/curl_transport.h"
#include "common/kube/transport.h"
#include "common/program/service_routes.h"
#include "common/program/service_server.h"
#include "extender/bind/binder.h"
#include "extender/bind/start_sequence.h"
#include "extender/card_preemption.h"
#include "extender/certificates/secret_certificates.h"
#include "extender/cluster_events.h"
#include "extender/leadership.h"
#include "extender/learning/price_refresher.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/pending_events.h"
#include "extender/probe.h"
#include "extender/requeue/requeue.h"
#include "extender/servers.h"
#include "extender/use_metrics.h"
#include "extender/verbs/verbs.h"
#include "extender/watches.h"
#include "extender/web/web.h"

namespace mgpu::extender {

struct ExtenderOptions {
  VerbOptions verbs;
  http::ServerOptions http{};        // of the verbs
  ServiceOptions service{};          // probes, metrics and inspection
  std::string url_prefix = "/mgpu";  // of the verbs; starts with "/", and does not end with it
  std::size_t binds_in_flight = kBindsInFlight;
  bool preempts_by_card = true;
  std::string requeue_namespace{};  // of the object that Requeue writes; empty: none
  kube::ObjectRef lease{"kube-system", "mgpu-extender"};  // names the process that may bind
  // Set: the Lease is taken when it is free, and renewed. Not set: it is taken at once, whoever
  // holds it.
  std::optional<ElectionOptions> election{};
  // Set: kube-scheduler calls this Service, and the leader is its endpoint.
  std::optional<EndpointOptions> endpoints{};
  std::optional<CertificateOptions> certificates{};  // with http.tls.from_texts; none: files
  std::optional<kube::Config> prometheus{};          // that the web page reads
  // Called once, on the executor of either transport, when another process holds the Lease or will
  // take it; may be empty. Parts of this process may hang, so that its end may take for ever.
  std::function<void(const std::string& sentence)> on_lease_lost{};
};

class Extender {
 public:
  // When it returns, the servers listen and the reflectors have started to list. Both transports
  // outlive the extender. `for_election` is required with options.election, and renews the Lease.
  // Errors: those of http::Server::start; credentials of Prometheus that cannot be read.
  static Result<std::unique_ptr<Extender>> start(ExtenderOptions options,
                                                 kube::Transport& transport,
                                                 kube::Transport* for_election = nullptr);
  // Drains, gives up an elected Lease, then ends. REQUIRES: not on the executors of the transports,
  // which still run.
  ~Extender();

  std::uint16_t port() const { return servers_.verbs_port(); }  // of the verbs
  std::uint16_t service_port() const { return servers_.service_port(); }
  // It decides now.
  bool ready() const { return may_decide() && servers_.has_certificates() && !draining_; }
  // Ends readiness and starts to drain the server of the verbs; the destructor waits for its end.
  // Probes are answered until then.
  void drain();

 private:
  Extender(ExtenderOptions options, kube::Transport& transport, kube::Transport* for_election);

  Result<void> add_web();
  void add_routes();
  bool may_decide() const;
  bool follows() const;
  void refuse_verb(const http::Respond& respond);
  void on_started();
  void on_listed();
  BinderEvents binder_events();
  StartSequence::Events start_events();
  CardEviction::Events preemption_events();
  Readiness readiness() const;
  void update_metrics();

  // A member may use those above it, and ends before them.
  const ExtenderOptions options_;
  kube::Transport& transport_;
  Metrics metrics_;
  Heartbeat work_{transport_.executor()};
  Ledger ledger_;
  DisruptionBudgets budgets_;
  CurrentPrices prices_;
  WorkloadWindow window_;
  AnsweredNodes answered_;
  const VerbContext verb_context_{options_.verbs, ledger_, budgets_, prices_, &window_, &answered_};
  Probe probe_{metrics_, ledger_.reader()};
  kube::Client client_{transport_};
  Leadership leadership_;
  HolderLease& lease_ = leadership_.lease();
  PodTouch touch_{client_, options_.verbs.contract, lease_.identity(),
                  [this](TouchResult result) { probe_.pod_touched(result); }};
  PreconditionCheck preconditions_{client_};
  NamingPods naming_pods_;
  Binder binder_;
  AsioExecutor delayed_;  // for filters that were delayed; stopped when the server has ended
  Requeue requeue_;
  UseMetrics use_metrics_{metrics_, ledger_.reader(), requeue_.rejected_pods(), prices_,
                          transport_.executor()};
  PriceRefresher price_refresher_{ledger_, prices_, window_, transport_.executor(),
                                  [this](Duration took) { probe_.prices_refreshed(took); }};
  // Ended before all others; its port is read by the watches.
  Servers servers_{{options_.http, options_.service, options_.certificates, transport_, client_,
                    metrics_, probe_}};
  std::atomic<bool> draining_ = false;
  bool logged_ready_ = false;     // on the executor
  StartSequence start_sequence_;  // stopped before the watches, which it starts, are destroyed
  Watches watches_{
      {transport_, verb_context_, binder_, budgets_, requeue_, probe_, [this] { on_listed(); }}};
  ClusterEvents cluster_events_{
      ledger_.reader(),
      options_.verbs.contract,
      naming_pods_,
      transport_,
      lease_.identity(),
      [this] { return may_decide(); },
      [this] { return start_sequence_.unsettled_pods(kClusterEventsFindingsMax); }};
  AsioExecutor inspections_;  // for /inspect, Events about pending pods, and the choice of victims
  PendingEvents pending_events_{verb_context_, transport_, inspections_, lease_.identity(),
                                [this] { return may_decide(); }};
  CardPreemption card_preemption_{verb_context_,
                                  transport_,
                                  inspections_,
                                  lease_.identity(),
                                  preemption_events(),
                                  [this](const std::string& group, std::size_t most) {
                                    return pending_events_.pods().of_group(group, most);
                                  }};
  AsioExecutor web_executor_;  // for the web page alone; stopped before prometheus_ ends
  std::unique_ptr<kube::CurlTransport> prometheus_;  // may be null
  std::optional<Web> web_;
};

}  // namespace mgpu::extender
