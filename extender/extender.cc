#include "extender/extender.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <utility>

#include "common/base/log.h"
#include "extender/inspect/inspect.h"
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

auto warn(const char* sentence) {
  return [sentence](const std::string& problem) { log_warn(sentence, {{"problem", problem}}); };
}

}  // namespace

Result<std::unique_ptr<Extender>> Extender::start(ExtenderSettings settings,
                                                  kube::Transport& transport,
                                                  kube::Transport* for_election) {
  std::unique_ptr<Extender> extender(new Extender(std::move(settings), transport, for_election));
  if (auto started = extender->start_servers(); !started) return started.error();
  if (extender->certificates_) extender->certificates_->start();
  extender->watches_.start();
  // Otherwise pods are listed when the start sequence is done.
  if (extender->election_) extender->watches_.pods().start();
  extender->binder_.start_reconciling();
  extender->cluster_events_.start();
  extender->pending_events_.start();
  if (extender->settings_.preempts_by_card) extender->card_preemption_.start();
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
      binder_(client_, verb_context_, {lease_, touch_, preconditions_}, settings_.binds_in_flight,
              binder_events()),
      requeue_(client_, ledger_, delayed_, settings_.requeue_namespace,
               {.on_outcome = [this](RequeueOutcome outcome) { probe_.requeue_ended(outcome); },
                .on_problem = warn("pods cannot be requeued: a pod may wait five minutes for a "
                                   "share that is free")}),
      start_sequence_(transport_, client_, settings_.verbs.contract,
                      {lease_, touch_, preconditions_}, ledger_, start_events()),
      certificates_(new_certificates()) {
  metrics_.on_collect([this] { update_metrics(); });
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
                        .preemption = card_preemption_,
                        .probe = probe_,
                        .clock = transport_.executor(),
                        .delayed = delayed_,
                        .ready = [this] { return may_decide(); },
                        .refuse = [this](const http::Respond& respond) { refuse_verb(respond); }});
  extender::add_routes(service_router_, "/inspect", verb_context_, client_, inspections_,
                       [this](const std::string& group) {
                         return pending_events_.pods().of_group(group, kPendingGroupPodsMax).size();
                       });
  add_service_routes(service_router_, metrics_, work_, [this] { return readiness(); });
}

Result<void> Extender::add_web() {
  if (settings_.prometheus) {
    auto prometheus = kube::CurlTransport::create(*settings_.prometheus, web_executor_);
    if (!prometheus) return error("--prometheus-url: " + prometheus.error().message);
    prometheus_ = std::move(*prometheus);
  }
  web_.emplace(Web::Dependencies{.instance = lease_.identity(),
                                 .ledger = ledger_,
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
  if (!settings_.certificates || !settings_.service.http.tls.from_texts) return {};
  // Probes, which do not verify it, are answered before the Secret is read.
  const CertificateBundle temporary = new_bundle(settings_.certificates->names, wall_clock());
  return service_->use_tls({temporary.server.certificate, temporary.server.key, ""});
}

std::unique_ptr<SecretCertificates> Extender::new_certificates() {
  if (!settings_.certificates) return nullptr;
  CertificateEvents events{
      .on_certificates =
          [this](const CertificateBundle& bundle) { return use_certificates(bundle); },
      .on_renewed =
          [this](const std::string& certificate, const std::string& reason) {
            log_info("made a certificate", {{"secret", certificates_->name()},
                                            {"certificate", certificate},
                                            {"reason", reason}});
          },
      .on_expiries = [this](const auto& ends) { probe_.certificates_end(ends); },
      .on_problem = warn("certificates need attention")};
  return std::make_unique<SecretCertificates>(client_, *settings_.certificates, std::move(events),
                                              wall_clock);
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
  ledger_.decisions().end_searches();
  if (server_) server_->drain();
}

BinderEvents Extender::binder_events() {
  return {.on_outcome = [this](BindOutcome outcome) { probe_.bind_ended(outcome); },
          .on_problem = warn("the outcome of a bind is unknown"),
          .on_conflict = [this] { probe_.bind_conflict(); },
          .on_filter_delayed = [this] { probe_.filter_delayed(); },
          .on_bound = [this](const BindablePod& pod) { naming_pods_.add(pod); },
          .on_not_refused_by_node = [this](const PodUid& uid) { answered_.forget_answer(uid); }};
}

StartSequence::Events Extender::start_events() {
  return {.on_done = [this] { on_started(); },
          .on_problem = warn("the start sequence is delayed, trying again"),
          .on_progress =
              [](std::size_t touched, std::size_t all) {
                log_info("pending pods touched",
                         {{"touched", std::to_string(touched)}, {"all", std::to_string(all)}});
              }};
}

CardEviction::Events Extender::preemption_events() {
  return {.decides = [this] { return may_decide() && !draining_; },
          .confirm = [this](HolderLease::Done done) { lease_.confirm(std::move(done)); },
          .on_ended = [this](std::size_t victims) { probe_.preempted_by_card(victims); },
          .on_problem = warn("no pods can be evicted for pods that need their cards")};
}

bool Extender::may_decide() const {
  return start_sequence_.done() && !lease_.lost() && !preconditions_.ignored() && watches_.listed();
}

void Extender::on_started() {
  log_info("took the lease; earlier binds can no longer happen, except those of unsettled pods",
           {{"lease", lease_.name()},
            {"holder", lease_.identity()},
            {"unsettled_pods", std::to_string(start_sequence_.unsettled())}});
  election_ ? watches_.pods().restart() : watches_.pods().start();
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
          .on_problem = warn("the lease could not be read or written, trying again"),
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
  if (!watches_.listed()) return;
  price_refresher_.start();
  if (!may_decide() || std::exchange(logged_ready_, true)) return;
  if (settings_.endpoints && !draining_) {
    endpoints_.emplace(client_, lease_, *settings_.endpoints,
                       warn("the endpoint of the leader could not be written, trying again"));
    endpoints_->start(port_);
  }
  const Counts counts = ledger_.reader().counts();
  log_info("ready", {{"nodes", std::to_string(counts.nodes)},
                     {"cards", std::to_string(counts.cards)},
                     {"pods", std::to_string(counts.bound)},
                     {"drifting", std::to_string(counts.drifting)}});
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
  watches_.report(out);
  return out;
}

void Extender::update_metrics() {
  probe_.ready(ready() || (follows() && watches_.listed()));
  probe_.leader(may_decide());
  probe_.binds_in_flight(binder_.in_flight());
  probe_.unsettled_pods(start_sequence_.unsettled());
  probe_.events_dropped(cluster_events_.dropped() + pending_events_.dropped() +
                        card_preemption_.events_dropped());
  watches_.update_metrics();
}

}  // namespace mgpu::extender
