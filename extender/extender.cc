#include "extender/extender.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "extender/inspect/inspect.h"
#include "extender/scheduler_routes.h"

namespace mgpu::extender {

namespace {

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

auto warn(const char* sentence) {
  return [sentence](const std::string& problem) { log_warn(sentence, {{"problem", problem}}); };
}

}  // namespace

Result<std::unique_ptr<Extender>> Extender::start(ExtenderOptions options,
                                                  kube::Transport& transport,
                                                  kube::Transport* for_election) {
  std::unique_ptr<Extender> extender(new Extender(std::move(options), transport, for_election));
  if (auto added = extender->add_web(); !added) return added.error();
  if (auto started = extender->servers_.start(); !started) return started.error();
  extender->watches_.start();
  // Otherwise pods are listed when the start sequence is done.
  if (extender->leadership_.is_elected()) extender->watches_.pods().start();
  extender->binder_.start_reconciling();
  extender->cluster_events_.start();
  extender->pending_events_.start();
  if (extender->options_.preempts_by_card) extender->card_preemption_.start();
  extender->start_sequence_.start();
  return extender;
}

Extender::Extender(ExtenderOptions options, kube::Transport& transport,
                   kube::Transport* for_election)
    : options_(std::move(options)),
      transport_(transport),
      leadership_(client_, options_.lease, for_election, options_.election, work_,
                  options_.on_lease_lost),
      binder_(client_, verb_context_, {lease_, touch_, preconditions_}, options_.binds_in_flight,
              binder_events()),
      requeue_(client_, ledger_, delayed_, options_.requeue_namespace,
               {.on_outcome = [this](RequeueOutcome outcome) { probe_.requeue_ended(outcome); },
                .on_problem = warn("pods cannot be requeued: a pod may wait five minutes for a "
                                   "share that is free")}),
      start_sequence_(transport_, client_, options_.verbs.contract,
                      {lease_, touch_, preconditions_}, ledger_, start_events()) {
  metrics_.on_collect([this] { update_metrics(); });
  add_routes();
}

Extender::~Extender() {
  start_sequence_.stop();
  drain();
  servers_.end_verbs();
  delayed_.stop();
  leadership_.release();
  servers_.end_service();
  web_.reset();
  web_executor_.stop();
}

void Extender::add_routes() {
  add_scheduler_routes(servers_.verbs(), options_.url_prefix,
                       {.context = verb_context_,
                        .binder = binder_,
                        .requeue = requeue_,
                        .preemption = card_preemption_,
                        .probe = probe_,
                        .clock = transport_.executor(),
                        .delayed = delayed_,
                        .ready = [this] { return may_decide(); },
                        .refuse = [this](const http::Respond& respond) { refuse_verb(respond); }});
  extender::add_routes(servers_.service(), "/inspect", verb_context_, client_, inspections_,
                       [this](const std::string& group) {
                         return pending_events_.pods().of_group(group, kPendingGroupPodsMax).size();
                       });
  add_service_routes(servers_.service(), metrics_, work_, [this] { return readiness(); });
}

Result<void> Extender::add_web() {
  if (options_.prometheus) {
    auto prometheus = kube::CurlTransport::create(*options_.prometheus, web_executor_);
    if (!prometheus) return error("--prometheus-url: " + prometheus.error().message);
    prometheus_ = std::move(*prometheus);
  }
  web_.emplace(Web::Dependencies{.instance = lease_.identity(),
                                 .ledger = ledger_.reader(),
                                 .options = options_.verbs,
                                 .transport = transport_,
                                 .prometheus = prometheus_.get(),
                                 .readiness = [this] { return readiness(); },
                                 .unix_ms = unix_ms},
               web_executor_);
  web_->add_routes(servers_.service());
  return {};
}

void Extender::drain() {
  draining_ = true;
  ledger_.decisions().end_searches();
  servers_.drain();
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
  leadership_.is_elected() ? watches_.pods().restart() : watches_.pods().start();
}

void Extender::refuse_verb(const http::Respond& respond) {
  leadership_.note_asked();
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
  return leadership_.is_elected() && start_sequence_.taking();
}

void Extender::on_listed() {
  if (!watches_.listed()) return;
  price_refresher_.start();
  if (!may_decide() || std::exchange(logged_ready_, true)) return;
  if (options_.endpoints && !draining_) leadership_.publish(*options_.endpoints, port());
  const Counts counts = ledger_.reader().counts();
  log_info("ready", {{"nodes", std::to_string(counts.nodes)},
                     {"cards", std::to_string(counts.cards)},
                     {"pods", std::to_string(counts.bound)},
                     {"drifting", std::to_string(counts.drifting)}});
}

Readiness Extender::readiness() const {
  Readiness out{.draining = draining_};
  if (leadership_.is_elected()) out.role = follows() ? "follower" : "leader";
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
  if (!servers_.has_certificates())
    out.waiting_for.push_back("secret " + to_string(options_.certificates->secret));
  watches_.report(out);
  return out;
}

void Extender::update_metrics() {
  probe_.show({.ready = ready() || (follows() && watches_.listed()),
               .leader = may_decide(),
               .binds_in_flight = binder_.in_flight(),
               .unsettled_pods = start_sequence_.unsettled(),
               .events_dropped = cluster_events_.dropped() + pending_events_.dropped() +
                                 card_preemption_.events_dropped()});
  watches_.update_metrics();
}

}  // namespace mgpu::extender
