#include "extender/extender.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/http/readiness.h"
#include "common/http/router.h"
#include "common/kube/client.h"
#include "common/kube/request.h"
#include "common/program/service_routes.h"
#include "extender/bind/binder.h"
#include "extender/inspect/inspect.h"
#include "extender/learning/price_refresher.h"
#include "extender/ledger/consumers.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/probe.h"
#include "extender/requeue/rejection_delay.h"
#include "extender/requeue/scheduler_requeue.h"
#include "extender/scheduler_routes.h"
#include "extender/watched.h"

namespace mgpu::extender {

namespace {

void log_wake_problem(const std::string& problem) {
  log_warn("pods cannot be requeued: one may wait five minutes for a share that is free",
           {{"problem", problem}});
}

void log_bind_problem(const std::string& problem) {
  log_warn("bind needs another look", {{"problem", problem}});
}

// What a pod asks for that runs already, for the workload that is learned. A request that is
// refused now is not expected again.
void learn(WorkloadWindow& window, const PodFacts& pod) {
  if (pod.request) window.seen(draw_of(pod.pod.uid), *pod.request, pod.pod.host);
}

}  // namespace

// Members are in the order of who uses whom: what is declared later ends earlier.
struct Extender::State {
  State(ExtenderSettings its_settings, kube::Transport& its_transport);

  Result<void> start();
  ExtenderSettings with_market(ExtenderSettings its) const;
  bool listed() const;
  Readiness readiness() const;
  void on_listed();
  void add_routes();
  void tell_probe();
  http::ServerEvents server_events();

  const std::shared_ptr<CurrentPrices> board = std::make_shared<CurrentPrices>();
  const std::shared_ptr<WorkloadWindow> window = std::make_shared<WorkloadWindow>();
  const ExtenderSettings settings;
  kube::Transport& transport;
  Metrics metrics;
  Ledger ledger;
  DisruptionBudgets budgets;
  Probe probe{metrics, ledger};
  kube::Client client{transport};
  Binder binder;
  RejectionDelay held{transport.executor()};
  SchedulerRequeue requeue;
  PriceRefresher keeper{ledger, *board, *window, transport.executor(),
                        [this](Duration took) { probe.prices_refreshed(took); }};
  std::atomic<bool> draining = false;
  Watched nodes;
  Watched pods;
  Watched disruption_budgets;
  const std::array<Watched*, 3> watched = {&nodes, &pods, &disruption_budgets};
  http::Router router;
  std::unique_ptr<http::Server> server;
};

Extender::State::State(ExtenderSettings its_settings, kube::Transport& its_transport)
    : settings(with_market(std::move(its_settings))),
      transport(its_transport),
      binder(client, ledger, settings.verbs, settings.binds_in_flight,
             {.on_outcome = [this](BindOutcome outcome) { probe.bind_ended(outcome); },
              .on_problem = log_bind_problem}),
      requeue(client, ledger, settings.requeue_namespace,
              {.on_outcome = [this](RequeueOutcome outcome) { probe.requeue_ended(outcome); },
               .on_problem = log_wake_problem}),
      nodes("nodes", kube::all_nodes(), transport, probe,
            node_consumer(ledger, settings.verbs.contract,
                          [this](const std::string& why) { nodes.note_unreadable(why); }),
            {.on_change = [this] { held.observe(ledger.releases()); },
             .on_listed = [this] { on_listed(); }}),
      pods("pods", kube::bound_pods(), transport, probe,
           pod_consumer(ledger, settings.verbs.contract,
                        {.on_settled = [this](const PodUid& uid) { requeue.gone(uid); },
                         .on_bound = [this](const PodFacts& pod) { learn(*window, pod); }}),
           {.on_change = [this] { held.observe(ledger.releases()); },
            .on_listed = [this] { on_listed(); }}),
      disruption_budgets("poddisruptionbudgets", kube::all_pod_disruption_budgets(), transport,
                         probe, budgets.consumer(),
                         {.on_change = [] {}, .on_listed = [this] { on_listed(); }}) {
  probe.before_reading([this] { tell_probe(); });
  add_routes();
}

ExtenderSettings Extender::State::with_market(ExtenderSettings its) const {
  its.verbs.price_snapshots = board;
  its.verbs.window = window;
  return its;
}

bool Extender::State::listed() const {
  return std::ranges::all_of(watched, [](const Watched* one) { return one->listed(); });
}

void Extender::State::on_listed() {
  if (!listed()) return;
  const Counts counts = ledger.counts();
  log_info("ready", {{"nodes", std::to_string(counts.nodes)},
                     {"cards", std::to_string(counts.cards)},
                     {"pods", std::to_string(counts.bound)},
                     {"drifting", std::to_string(counts.drifting)}});
  keeper.start();
}

Readiness Extender::State::readiness() const {
  Readiness out{.draining = draining};
  for (const Watched* one : watched) {
    if (!one->listed()) out.waiting_for.emplace_back(one->name());
    if (one->unreadable() > 0) out.unreadable[one->name()] = one->unreadable();
    std::string problem = one->problem();
    if (problem.empty()) continue;
    const auto silence = std::chrono::duration_cast<std::chrono::seconds>(one->silent_for());
    if (out.problem.empty() || silence > out.silence) out.problem = std::move(problem);
    out.silence = std::max(out.silence, silence);
  }
  return out;
}

void Extender::State::tell_probe() {
  probe.ready(listed() && !draining);
  probe.binds_in_flight(binder.in_flight());
  for (const Watched* one : watched) probe.watch_silence(one->name(), one->silent_for());
}

void Extender::State::add_routes() {
  SchedulerRoutes{ledger,
                  budgets,
                  settings.verbs,
                  binder,
                  held,
                  requeue,
                  probe,
                  transport.executor(),
                  [this] { return listed(); }}
      .add_to(router, settings.url_prefix);
  extender::add_routes(router, "/inspect", ledger, settings.verbs, client);
  add_service_routes(router, metrics, [this] { return readiness(); });
}

http::ServerEvents Extender::State::server_events() {
  return {.on_connections = [this](std::size_t open) { probe.connections(open); },
          .on_refused =
              [this](const char* why) {
                probe.connection_refused(why);
                log_debug("connection refused", {{"why", why}});
              },
          .on_problem =
              [](const std::string& problem) {
                log_warn("HTTP server", {{"problem", problem}});
              }};
}

Result<void> Extender::State::start() {
  auto started = http::Server::start(
      settings.http,
      [this](http::Request request, http::Respond respond) {
        router.route(std::move(request), std::move(respond));
      },
      server_events());
  if (!started) return started.error();
  server = std::move(*started);
  for (Watched* one : watched) one->start();
  binder.start_rechecks();
  return {};
}

Extender::Extender(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Extender>> Extender::start(ExtenderSettings settings,
                                                  kube::Transport& transport) {
  auto state = std::make_unique<State>(std::move(settings), transport);
  if (auto started = state->start(); !started) return started.error();
  return std::unique_ptr<Extender>(new Extender(std::move(state)));
}

Extender::~Extender() {
  drain();
}

std::uint16_t Extender::port() const {
  return state_->server->port();
}

bool Extender::ready() const {
  return state_->listed() && !state_->draining;
}

void Extender::drain() {
  state_->draining = true;
  state_->server->drain();
}

}  // namespace mgpu::extender
