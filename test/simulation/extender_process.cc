#include "test/simulation/extender_process.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/base/utc_text.h"
#include "extender/election/limits.h"
#include "extender/scheduler_routes.h"

namespace mgpu::simulation {
namespace {

// A shutdown waits so long for the calls that are in progress.
constexpr Duration kDrain{5'000};
constexpr Duration kDrainPoll{50};

extender::VerbOptions options_of(const Contract& contract) {
  extender::VerbOptions options;
  options.contract = contract;
  options.policy = *extender::find_policy("binpack");
  return options;
}

}  // namespace

ExtenderProcess::ExtenderProcess(kube::MemoryApiServer& server, FaultQueue& faults,
                                 const Contract& contract, Setup setup)
    : setup_(std::move(setup)),
      world_(server.executor()),
      link_(server, faults, setup_.on_served),
      election_link_(server, faults, setup_.on_served),
      options_(options_of(contract)),
      lease_(
          client_, kExtenderLease, setup_.identity,
          [this](const std::string&) { setup_.on_lease_lost(); },
          setup_.election
              ? [this](extender::HolderLease::Done done) { acquire_lease(std::move(done)); }
              : std::function<void(extender::HolderLease::Done)>()),
      election_(make_election()),
      endpoints_(client_, lease_, {kExtenderService, "10.0.0.1"}, [](const std::string&) {}),
      touch_(client_, options_.contract, lease_.identity(), {}),
      binder_(client_, verb_context_, {lease_, touch_, preconditions_}, extender::kBindsInFlight,
              {}),
      requeue_(client_, ledger_, link_.executor(), "default", {[](auto) {}, [](const auto&) {}}),
      pending_events_(verb_context_, link_, link_.executor(), setup_.identity,
                      [this] { return ready() && !setup_.is_observer; }),
      card_preemption_(
          verb_context_, link_, link_.executor(), setup_.identity,
          {.decides = [this] { return ready() && !setup_.is_observer; },
           .confirm = [this](extender::HolderLease::Done done) { lease_.confirm(std::move(done)); },
           .on_ended = [](std::size_t) {},
           .on_problem = [](const std::string&) {}},
          [this](const std::string& group, std::size_t most) {
            return pending_events_.pods().of_group(group, most);
          }),
      start_sequence_(link_, client_, options_.contract, {lease_, touch_, preconditions_}, ledger_,
                      {.on_done = [this] { on_started(); },
                       .on_problem = [](const std::string&) {},
                       .on_progress = [](std::size_t, std::size_t) {}}) {
  extender::add_scheduler_routes(
      router_, "/mgpu",
      {.context = verb_context_,
       .binder = binder_,
       .requeue = requeue_,
       .preemption = card_preemption_,
       .probe = probe_,
       .clock = link_.executor(),
       .delayed = link_.executor(),
       .ready = [this] { return ready(); },
       .refuse = [this](const http::Respond& respond) { refuse_verb(respond); }});
  watches_.start();
  if (setup_.is_observer || setup_.election) watches_.pods().start();
  if (setup_.is_observer) return;
  if (setup_.preempts_by_card) {
    pending_events_.start();
    card_preemption_.start();
  }
  binder_.start_reconciling();
  start_sequence_.start();
}

ExtenderProcess::~ExtenderProcess() {
  start_sequence_.stop();
}

// --- the verbs -----------------------------------------------------------------------------------

void ExtenderProcess::call(const std::string& verb, std::string body,
                           std::function<void(int status, const std::string& body)> done) {
  http::Request request;
  request.method = "POST";
  request.path = "/mgpu/" + verb;
  request.body = std::move(body);
  link_.executor().post([this, request = std::move(request), done = std::move(done)] {
    if (draining_) return done(0, "");
    ++calls_;
    router_.route(request, [this, done](const http::Response& response) {
      --calls_;
      done(response.status, response.body);
    });
  });
}

void ExtenderProcess::refuse_verb(const http::Respond& respond) {
  if (election_) election_->note_asked();
  respond(http::error_response(503, "it does not decide"));
}

// --- election, as in extender/leadership.cc ------------------------------------------------------

std::optional<extender::LeaderElection> ExtenderProcess::make_election() {
  if (!setup_.election) return std::nullopt;
  const auto on_executor = [this](Task task) {
    link_.executor().post(callbacks_.wrap(std::move(task)));
  };
  return std::optional<extender::LeaderElection>(
      std::in_place, election_link_, kExtenderLease, setup_.identity, *setup_.election, work_,
      extender::LeaderElection::Events{
          .on_taken = [this, on_executor] { on_executor([this] { on_lease_taken(); }); },
          .on_lost = [this](const std::string& why) { lease_.lose_because(why); },
          .on_problem = [](const std::string&) {}},
      [this] { return wall_clock(); });
}

std::string ExtenderProcess::wall_clock() {
  constexpr std::chrono::sys_days kBegin = std::chrono::year(2026) / 1 / 1;
  return utc_micro_text(kBegin + world_.now().time_since_epoch() + *setup_.clock_offset);
}

void ExtenderProcess::acquire_lease(extender::HolderLease::Done done) {
  lease_acquired_ = std::move(done);
  election_->start();
}

void ExtenderProcess::on_lease_taken() {
  has_led_ = true;
  std::exchange(lease_acquired_, {})({});
}

void ExtenderProcess::on_started() {
  setup_.election ? watches_.pods().restart() : watches_.pods().start();
}

void ExtenderProcess::on_listed() {
  if (!setup_.has_service || !ready() || std::exchange(has_endpoint_, true)) return;
  endpoints_.start(setup_.port);
}

// --- what happens to the process -----------------------------------------------------------------

bool ExtenderProcess::watches_are_late() const {
  Readiness readiness;
  watches_.report(readiness);
  return readiness.failing || link_.watches_lag();
}

void ExtenderProcess::stop(Stop stop, Duration time) {
  stopped_until_ = std::max(stopped_until_, world_.now() + time);
  if (stop == Stop::kHung) return link_.executor().freeze(time);
  for (Link* link : {&link_, &election_link_}) {
    stop == Stop::kPaused ? link->executor().pause(time) : link->executor().freeze(time);
  }
}

void ExtenderProcess::stop_at_next_bind(Stop kind, Duration time) {
  link_.before_next_bind([this, kind, time] {
    stop(kind, time);
    return time;
  });
}

void ExtenderProcess::cut(Link::Cut cut, Duration time) {
  link_.cut(cut, time);
  election_link_.cut(cut, time);
}

void ExtenderProcess::shut_down(std::function<void()> done) {
  if (draining_) return;
  draining_ = true;
  shut_down_ = std::move(done);
  start_sequence_.stop();
  drain(link_.executor().now() + kDrain);
}

void ExtenderProcess::drain(Instant end) {
  if (calls_ == 0 || link_.executor().now() >= end) return release_lease();
  link_.executor().after(kDrainPoll, [this, end] { drain(end); });
}

void ExtenderProcess::release_lease() {
  if (!election_ || lease_.lost()) return end_shutdown();
  election_->release(
      [this] { link_.executor().post(callbacks_.wrap([this] { end_shutdown(); })); });
  link_.executor().after(extender::kReleaseTimeout, [this] { end_shutdown(); });
}

void ExtenderProcess::end_shutdown() {
  if (const auto done = std::exchange(shut_down_, {})) done();
}

}  // namespace mgpu::simulation
