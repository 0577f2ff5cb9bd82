#include "extender/extender.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "common/base/log.h"
#include "common/kube/request.h"
#include "extender/inspect/inspect.h"
#include "extender/ledger/consumers.h"
#include "extender/process_identity.h"
#include "extender/scheduler_routes.h"

namespace mgpu::extender {

namespace {

constexpr const char* kMetricPrefix = "mgpu_extender";

std::chrono::sys_seconds wall_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

Result<std::unique_ptr<Extender>> Extender::start(ExtenderSettings settings,
                                                  kube::Transport& transport,
                                                  kube::Transport* for_election) {
  std::unique_ptr<Extender> extender(new Extender(std::move(settings), transport, for_election));
  if (auto started = extender->start_servers(); !started) return started.error();
  if (extender->certificates_) extender->certificates_->start();
  extender->watched_nodes_.start();
  // Otherwise pods are listed when the start sequence is done.
  if (extender->election_) extender->watched_pods_.start();
  extender->watched_budgets_.start();
  extender->watched_nominations_.start();
  extender->binder_.start_reconciling();
  extender->cluster_events_.start();
  extender->start_sequence_.start();
  return extender;
}

Extender::Extender(ExtenderSettings settings, kube::Transport& transport,
                   kube::Transport* for_election)
    : settings_(std::move(settings)),
      transport_(transport),
      lease_(
          client_, settings_.lease, process_identity(),
          [this](const std::string& sentence) { on_lease_lost(sentence); },
          for_election == nullptr
              ? std::function<void(HolderLease::Done)>()
              : [this](HolderLease::Done done) { acquire_lease(std::move(done)); }),
      election_(make_election(for_election)),
      touch_(client_, settings_.verbs.contract, lease_.identity(),
             [this](TouchResult result) { probe_.pod_touched(result); }),
      binder_(client_, verb_context_, {lease_, touch_, preconditions_}, settings_.binds_in_flight,
              binder_events()),
      requeue_(client_, ledger_, delayed_, settings_.requeue_namespace,
               {.on_outcome = [this](RequeueOutcome outcome) { probe_.requeue_ended(outcome); },
                .on_problem =
                    [](const std::string& problem) {
                      log_warn(
                          "pods cannot be requeued: a pod may wait five minutes for a share "
                          "that is free",
                          {{"problem", problem}});
                    }}),
      use_metrics_(metrics_, ledger_, requeue_.rejected_pods(), prices_, transport_.executor()),
      price_refresher_(ledger_, prices_, window_, transport_.executor(),
                       [this](Duration took) { probe_.prices_refreshed(took); }),
      start_sequence_(transport_, client_, settings_.verbs.contract,
                      {lease_, touch_, preconditions_}, ledger_, start_events()),
      watched_nodes_(
          "nodes", kube::all_nodes(), transport_, probe_,
          node_consumer(ledger_, settings_.verbs.contract,
                        [this](const std::string& why) { watched_nodes_.note_unreadable(why); }),
          {.on_change = [this] { on_cluster_change(); }, .on_listed = [this] { on_listed(); }}),
      watched_pods_(
          "pods", kube::in_protobuf(kube::bound_pods()), transport_, probe_,
          pod_consumer(
              ledger_, settings_.verbs.contract,
              {.on_settled =
                   [this](const PodUid& uid) {
                     requeue_.on_settled(uid);
                     answered_.end(uid);
                   },
               .on_running =
                   [this](const PodRef& pod, const NonGpuPod& facts, const GpuRequest& request) {
                     window_.seen(tie_break_seed_of(facts.uid), pod.name_space, request,
                                  facts.resources);
                   },
               .on_drift = [this](const DriftChange& change) { on_drift(change); }}),
          {.on_change = [this] { on_cluster_change(); }, .on_listed = [this] { on_listed(); }}),
      watched_budgets_("poddisruptionbudgets", kube::all_pod_disruption_budgets(), transport_,
                       probe_, budgets_.consumer(), {.on_change = [] {}, .on_listed = [] {}}),
      watched_nominations_("nominatedpods", kube::in_protobuf(kube::nominated_pods()), transport_,
                           probe_, nomination_consumer(ledger_),
                           {.on_change = [this] { on_cluster_change(); }, .on_listed = [] {}}) {
  if (settings_.endpoints) {
    endpoints_.emplace(client_, lease_, *settings_.endpoints, [](const std::string& problem) {
      log_warn("the endpoint of the leader could not be written, trying again",
               {{"problem", problem}});
    });
  }
  metrics_.on_collect([this] { update_metrics(); });
  certificates_ = new_certificates();
  add_routes();
}

Extender::~Extender() {
  if (certificates_) certificates_->stop();
  start_sequence_.stop();
  drain();
  server_.reset();
  delayed_.stop();
  release_lease();
  service_.reset();
  web_.reset();
  web_executor_.stop();
}

void Extender::add_routes() {
  add_scheduler_routes(verb_router_, settings_.url_prefix,
                       {.context = verb_context_,
                        .binder = binder_,
                        .requeue = requeue_,
                        .probe = probe_,
                        .clock = transport_.executor(),
                        .delayed = delayed_,
                        .ready = [this] { return may_decide(); },
                        .refuse = [this](const http::Respond& respond) { refuse_verb(respond); }});
  extender::add_routes(service_router_, "/inspect", verb_context_, client_, inspections_);
  add_service_routes(service_router_, metrics_, work_, [this] { return readiness(); });
}

Result<void> Extender::add_web() {
  if (settings_.prometheus) {
    auto prometheus = kube::CurlTransport::create(*settings_.prometheus, web_executor_);
    if (!prometheus) return error("--prometheus-url: " + prometheus.error().message);
    prometheus_ = std::move(*prometheus);
  }
  web_.emplace(Web::Sources{.ledger = ledger_,
                            .settings = settings_.verbs,
                            .transport = transport_,
                            .prometheus = prometheus_.get(),
                            .readiness = [this] { return readiness(); },
                            .unix_ms = unix_ms},
               web_executor_);
  web_->add_routes(service_router_);
  return {};
}

Result<void> Extender::start_servers() {
  if (auto added = add_web(); !added) return added.error();
  auto service = ServiceServer::start(settings_.service, service_router_, transport_,
                                      server_events(metrics_, kMetricPrefix, "metrics"));
  if (!service) return service.error();
  service_ = std::move(*service);
  auto server = http::Server::start(
      settings_.http,
      [this](http::Request request, http::Respond respond) {
        verb_router_.route(std::move(request), std::move(respond));
      },
      server_events(metrics_, kMetricPrefix, "verbs"));
  if (!server) return server.error();
  server_ = std::move(*server);
  port_ = server_->port();
  const bool needed = settings_.certificates && settings_.service.http.tls.from_texts;
  return needed ? use_temporary_certificate() : Result<void>();
}

std::unique_ptr<SecretCertificates> Extender::new_certificates() {
  if (!settings_.certificates) return nullptr;
  return std::make_unique<SecretCertificates>(client_, *settings_.certificates,
                                              certificate_events(), wall_clock);
}

// Probes, which do not verify it, are answered before the Secret is read.
Result<void> Extender::use_temporary_certificate() {
  const CertificateBundle temporary = new_bundle(settings_.certificates->names, wall_clock());
  return service_->use_tls({temporary.server.certificate, temporary.server.key, ""});
}

CertificateEvents Extender::certificate_events() {
  return {.on_certificates =
              [this](const CertificateBundle& bundle) { return use_certificates(bundle); },
          .on_renewed =
              [this](const std::string& certificate, const std::string& reason) {
                log_info("made a certificate", {{"secret", certificates_->name()},
                                                {"certificate", certificate},
                                                {"reason", reason}});
              },
          .on_expiries = [this](const auto& ends) { probe_.certificates_end(ends); },
          .on_problem =
              [](const std::string& problem) {
                log_warn("certificates need attention", {{"problem", problem}});
              }};
}

Result<void> Extender::use_certificates(const CertificateBundle& bundle) {
  auto used = server_->use_tls(
      {bundle.server.certificate, bundle.server.key, bundle.authority.certificate});
  if (used && settings_.service.http.tls.from_texts) {
    used = service_->use_tls({bundle.server.certificate, bundle.server.key, ""});
  }
  if (used) {
    log_info("using the certificates of the secret", {{"secret", certificates_->name()}});
  }
  return used;
}

void Extender::drain() {
  draining_ = true;
  ledger_.end_searches();
  if (server_) server_->drain();
}

BinderEvents Extender::binder_events() {
  return {.on_outcome = [this](BindOutcome outcome) { probe_.bind_ended(outcome); },
          .on_problem =
              [](const std::string& problem) {
                log_warn("the outcome of a bind is unknown", {{"problem", problem}});
              },
          .on_conflict = [this] { probe_.bind_conflict(); },
          .on_filter_delayed = [this] { probe_.filter_delayed(); },
          .on_bound = [this](const BindablePod& pod) { naming_pods_.add(pod); },
          .on_not_refused_by_node = [this](const PodUid& uid) { answered_.forget_answer(uid); }};
}

StartSequence::Events Extender::start_events() {
  return {.on_done = [this] { on_started(); },
          .on_problem =
              [](const std::string& problem) {
                log_warn("the start sequence is delayed, trying again", {{"problem", problem}});
              },
          .on_progress =
              [](std::size_t touched, std::size_t all) {
                log_info("pending pods touched",
                         {{"touched", std::to_string(touched)}, {"all", std::to_string(all)}});
              }};
}

// Budgets only order the victims of preemption, which must not depend on them.
bool Extender::may_decide() const {
  return start_sequence_.done() && !lease_.lost() && !preconditions_.ignored() &&
         watched_nodes_.listed() && watched_pods_.listed();
}

void Extender::on_started() {
  log_info("took the lease; earlier binds can no longer happen, except those of unsettled pods",
           {{"lease", lease_.name()},
            {"holder", lease_.identity()},
            {"unsettled_pods", std::to_string(start_sequence_.unsettled())}});
  election_ ? watched_pods_.restart() : watched_pods_.start();
}

// --- election ------------------------------------------------------------------------------------

std::unique_ptr<LeaderElection> Extender::make_election(kube::Transport* transport) {
  if (transport == nullptr) return nullptr;
  const auto on_executor = [this](Task task) {
    transport_.executor().post(callbacks_.wrap(std::move(task)));
  };
  return std::make_unique<LeaderElection>(
      *transport, settings_.lease, lease_.identity(), *settings_.election, work_,
      LeaderElection::Events{
          .on_taken =
              [this, on_executor] {
                on_executor([this] { std::exchange(lease_acquired_, {})({}); });
              },
          .on_lost = [this](const std::string& why) { lease_.lose_because(why); },
          .on_problem =
              [](const std::string& problem) {
                log_warn("the lease could not be read or written, trying again",
                         {{"problem", problem}});
              },
          .on_other_holder =
              [this](const std::string& holder) {
                log_info("another process holds the lease",
                         {{"lease", lease_.name()}, {"holder", holder}});
              }});
}

void Extender::acquire_lease(HolderLease::Done done) {
  log_info("following, until the lease may be taken", {{"lease", lease_.name()}});
  lease_acquired_ = std::move(done);
  election_->start();
}

// The next leader need not wait until the Lease expires.
void Extender::release_lease() {
  if (!election_ || lease_.lost()) return;
  lease_given_up_ = true;
  const auto released = std::make_shared<std::promise<void>>();
  election_->release([released] { released->set_value(); });
  if (released->get_future().wait_for(kReleaseTimeout) != std::future_status::ready) {
    log_warn("the lease was not given up in time", {{"lease", lease_.name()}});
  }
}

void Extender::refuse_verb(const http::Respond& respond) {
  if (election_) election_->note_asked();
  probe_.verb_refused();
  auto refusal = http::error_response(
      503, follows() ? fmt::format("this replica does not hold the lease {}, and does not decide",
                                   lease_.name())
                     : "the extender is not ready: see /readyz");
  // kube-proxy moves new connections to the leader, and none that exist.
  refusal.last = true;
  respond(std::move(refusal));
}

bool Extender::follows() const {
  return election_ && start_sequence_.taking();
}

void Extender::on_lease_lost(const std::string& sentence) {
  if (lease_given_up_) return;
  log_error("lease lost", {{"problem", sentence}});
  if (settings_.on_lease_lost) settings_.on_lease_lost(sentence);
}

void Extender::on_listed() {
  if (!watched_nodes_.listed() || !watched_pods_.listed()) return;
  price_refresher_.start();
  if (!may_decide() || std::exchange(logged_ready_, true)) return;
  if (endpoints_ && !draining_) endpoints_->start(port_);
  const Counts counts = ledger_.counts();
  log_info("ready", {{"nodes", std::to_string(counts.nodes)},
                     {"cards", std::to_string(counts.cards)},
                     {"pods", std::to_string(counts.bound)},
                     {"drifting", std::to_string(counts.drifting)}});
}

// The ledger reports a change of state once, however often the annotations are edited.
void Extender::on_drift(const DriftChange& change) {
  if (!change.drift) {
    log_info("the annotations of a pod agree with its cards again",
             {{"pod", to_string(change.pod)}, {"node", change.node.str()}});
    return;
  }
  probe_.drifted(*change.drift);
  log_warn("the annotations of a bound pod do not agree with its cards",
           {{"pod", to_string(change.pod)},
            {"node", change.node.str()},
            {"drift", std::string(name(*change.drift))},
            {"detail", change.detail}});
}

Readiness Extender::readiness() const {
  Readiness out{.draining = draining_};
  if (election_) out.role = follows() ? "follower" : "leader";
  if (lease_.lost()) out.waiting_for.emplace_back("lease " + lease_.name());
  if (!start_sequence_.done() && !follows()) {
    out.waiting_for.push_back(start_sequence_.waiting_for());
  } else if (preconditions_.ignored()) {
    out.waiting_for.emplace_back(kPreconditionIgnored);
  }
  if (const std::size_t pods = start_sequence_.unsettled(); pods > 0) {
    out.without.push_back(
        fmt::format("{} pod{} that cannot be changed", pods, pods == 1 ? "" : "s"));
  }
  if (!has_certificates()) out.waiting_for.push_back("secret " + certificates_->name());
  for (const Watched* watched : watched_) {
    if (!watched->listed()) {
      const bool needed = watched == &watched_nodes_ || watched == &watched_pods_;
      (needed ? out.waiting_for : out.without).emplace_back(watched->name());
    }
    if (watched->unreadable() > 0) out.unreadable[watched->name()] = watched->unreadable();
    if (watched->problem().empty()) continue;
    out.failing = true;
    const auto silence = std::chrono::duration_cast<std::chrono::seconds>(watched->silent_for());
    out.silence = std::max(out.silence, silence);
  }
  return out;
}

void Extender::update_metrics() {
  probe_.ready(ready() || (follows() && watched_nodes_.listed() && watched_pods_.listed()));
  probe_.leader(may_decide());
  probe_.binds_in_flight(binder_.in_flight());
  probe_.unsettled_pods(start_sequence_.unsettled());
  probe_.events_dropped(cluster_events_.dropped());
  for (const Watched* watched : watched_) {
    probe_.watch_silence(watched->name(), watched->silent_for());
  }
}

}  // namespace mgpu::extender
