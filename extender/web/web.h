// The web page of the cluster, on the listener for probes, metrics and inspection.
//
//   GET /                              to /web/
//   GET /web/, /web/FILE               the page and its files (page/)
//   GET /web/events[?epoch=E&since=V]  server-sent events (HTML standard, 9.2), which do not end
//   GET /web/use?namespace=N&pod=P     what a pod uses of its cards (pod_use.h)
//
//   event    data
//   hello    {"epoch", "started", "now", "version", "instance", "domain", "policy"}   first;
//            times are in ms; "instance" is the name of this process in the Lease
//   nodes    what has changed since V, or all nodes (cluster_feed.h). V counts in epoch E only
//   synced   {}: the nodes before it are the whole cluster
//   waiting  the pods that wait for cards (waiting_pods.h)
//   history  {"restart": bool, "source": "prometheus" | "extender", "intervalSeconds", "points":
//            [...], "problem"?, "idle"?: [[namespace, name]*]} (history.h): more points, or with
//            "restart" all of them. Those of the extender begin with its start. "problem" is why
//            they are not of Prometheus, "idle" the pods that have used nothing for an hour
//   status   the body of /readyz
//   beat     {"now"}: after kWebHeartbeatInterval without another event
//
// Each client is sent the next part when it has received the previous one, so that a slow client
// costs no memory and delays no other; the HTTP server closes a connection that is not read for its
// transfer timeout. More than kWebClientsMax get 503.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/http/router.h"
#include "common/kube/transport.h"
#include "common/program/service_routes.h"
#include "extender/verbs/verbs.h"
#include "extender/web/cluster_feed.h"
#include "extender/web/history.h"
#include "extender/web/pod_use.h"
#include "extender/web/prometheus_history.h"
#include "extender/web/waiting_pods.h"

namespace mgpu::extender {

class Web {
 public:
  struct Dependencies {
    std::string instance{};
    LedgerReader& ledger;
    const VerbOptions& options;
    kube::Transport& transport;
    kube::Transport* prometheus = nullptr;  // on the executor of Web; null: there is none
    std::function<Readiness()> readiness;   // any thread
    std::function<std::int64_t()> unix_ms;
  };
  // Runs everything on `executor`, which nothing else should use that must not wait. All references
  // outlive this; the server of the router ends before it.
  Web(Dependencies dependencies, Executor& executor);
  ~Web();

  // The router does not outlive this.
  void add_routes(http::Router& router);

 private:
  struct Client;
  class Slot;

  void open_events(const http::Request& request, const http::Respond& respond);
  void tick();
  void add_point();
  void update();
  void send_next(Client& client);
  std::string next_text(Client& client);
  std::string start_event() const;
  std::string history_text(Client& client);

  const Dependencies dependencies_;
  Executor& executor_;
  const std::int64_t started_;
  const std::string epoch_;
  std::atomic<std::size_t> slots_taken_ = 0;
  // On the executor.
  ClusterFeed feed_;
  WaitingPods waiting_;
  History history_;
  std::optional<PrometheusHistory> prometheus_;
  PodUse pod_use_;
  std::string status_;
  bool ticking_ = false;
  std::string waiting_text_;  // of waiting_version_, the same for all pages
  std::uint64_t waiting_version_ = 0;
  Instant last_client_{};
  std::uint64_t next_id_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
  CallbackGuard tasks_;  // ends first
};

}  // namespace mgpu::extender
