#include "extender/extender.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "common/kube/request.h"
#include "extender/inspect/inspect.h"
#include "extender/ledger/consumers.h"
#include "extender/scheduler_routes.h"

namespace mgpu::extender {

Result<std::unique_ptr<Extender>> Extender::start(ExtenderSettings settings,
                                                  kube::Transport& transport) {
  const auto prices = std::make_shared<CurrentPrices>();
  settings.verbs.price_snapshots = prices;
  settings.verbs.window = std::make_shared<WorkloadWindow>();
  std::unique_ptr<Extender> extender(new Extender(std::move(settings), transport, *prices));
  if (auto started = extender->start_server(); !started) return started.error();
  for (Watched* watched : extender->watched_) watched->start();
  extender->binder_.start_reconciling();
  return extender;
}

Extender::Extender(ExtenderSettings settings, kube::Transport& transport, CurrentPrices& prices)
    : settings_(std::move(settings)),
      transport_(transport),
      binder_(client_, ledger_, settings_.verbs, settings_.binds_in_flight,
              {.on_outcome = [this](BindOutcome outcome) { probe_.bind_ended(outcome); },
               .on_problem =
                   [](const std::string& problem) {
                     log_warn("the outcome of a bind is unknown", {{"problem", problem}});
                   }}),
      requeue_(client_, ledger_, settings_.requeue_namespace,
               {.on_outcome = [this](RequeueOutcome outcome) { probe_.requeue_ended(outcome); },
                .on_problem =
                    [](const std::string& problem) {
                      log_warn(
                          "pods cannot be requeued: a pod may wait five minutes for a share "
                          "that is free",
                          {{"problem", problem}});
                    }}),
      price_refresher_(ledger_, prices, *settings_.verbs.window, transport_.executor(),
                       [this](Duration took) { probe_.prices_refreshed(took); }),
      watched_nodes_(
          "nodes", kube::all_nodes(), transport_, probe_,
          node_consumer(ledger_, settings_.verbs.contract,
                        [this](const std::string& why) { watched_nodes_.note_unreadable(why); }),
          {.on_change = [this] { on_cluster_change(); }, .on_listed = [this] { on_listed(); }}),
      watched_pods_(
          "pods", kube::bound_pods(), transport_, probe_,
          pod_consumer(
              ledger_, settings_.verbs.contract,
              {.on_settled = [this](const PodUid& uid) { requeue_.on_settled(uid); },
               .on_running =
                   [this](const PodRef& pod, const NonGpuPod& facts, const GpuRequest& request) {
                     settings_.verbs.window->seen(tie_break_seed_of(facts.uid), pod.name_space,
                                                  request, facts.host);
                   }}),
          {.on_change = [this] { on_cluster_change(); }, .on_listed = [this] { on_listed(); }}),
      watched_budgets_("poddisruptionbudgets", kube::all_pod_disruption_budgets(), transport_,
                       probe_, budgets_.consumer(),
                       {.on_change = [] {}, .on_listed = [this] { on_listed(); }}) {
  metrics_.on_collect([this] { update_metrics(); });
  add_routes();
}

void Extender::add_routes() {
  add_scheduler_routes(router_, settings_.url_prefix,
                       {.ledger = ledger_,
                        .budgets = budgets_,
                        .settings = settings_.verbs,
                        .binder = binder_,
                        .rejection_delay = rejection_delay_,
                        .requeue = requeue_,
                        .probe = probe_,
                        .clock = transport_.executor(),
                        .ready = [this] { return listed(); }});
  extender::add_routes(router_, "/inspect", ledger_, settings_.verbs, client_, inspections_);
  add_service_routes(router_, metrics_, [this] { return readiness(); });
}

Result<void> Extender::start_server() {
  http::ServerEvents events;
  events.on_connections = [this](std::size_t open) { probe_.connections(open); };
  events.on_refused = [this](const char* why) {
    probe_.connection_refused(why);
    log_debug("connection refused", {{"why", why}});
  };
  events.on_problem = [](const std::string& problem) {
    log_warn("HTTP server problem", {{"problem", problem}});
  };
  auto server = http::Server::start(
      settings_.http,
      [this](http::Request request, http::Respond respond) {
        router_.route(std::move(request), std::move(respond));
      },
      std::move(events));
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

void Extender::drain() {
  draining_ = true;
  if (server_) server_->drain();
}

bool Extender::listed() const {
  return std::ranges::all_of(watched_, &Watched::listed);
}

void Extender::on_listed() {
  if (!listed()) return;
  const Counts counts = ledger_.counts();
  log_info("ready", {{"nodes", std::to_string(counts.nodes)},
                     {"cards", std::to_string(counts.cards)},
                     {"pods", std::to_string(counts.bound)},
                     {"drifting", std::to_string(counts.drifting)}});
  price_refresher_.start();
}

Readiness Extender::readiness() const {
  Readiness out{.draining = draining_};
  for (const Watched* watched : watched_) {
    if (!watched->listed()) out.waiting_for.emplace_back(watched->name());
    if (watched->unreadable() > 0) out.unreadable[watched->name()] = watched->unreadable();
    std::string problem = watched->problem();
    if (problem.empty()) continue;
    const auto silence = std::chrono::duration_cast<std::chrono::seconds>(watched->silent_for());
    if (out.problem.empty() || silence > out.silence) out.problem = std::move(problem);
    out.silence = std::max(out.silence, silence);
  }
  return out;
}

void Extender::update_metrics() {
  probe_.ready(ready());
  probe_.binds_in_flight(binder_.in_flight());
  for (const Watched* watched : watched_) {
    probe_.watch_silence(watched->name(), watched->silent_for());
  }
}

}  // namespace mgpu::extender
