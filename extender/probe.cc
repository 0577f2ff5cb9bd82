#include "extender/probe.h"

#include <array>
#include <string>

#include "common/base/check.h"
#include "common/program/service_routes.h"

namespace mgpu::extender {

namespace {

constexpr const char* kResources[] = {"nodes", "pods", "poddisruptionbudgets", "nominatedpods"};
constexpr const char* kFilterNodes = "Nodes that filter was asked about, by result.";

// By the numbers of the values.
constexpr std::array kBindOutcomes = {"bound", "unfit", "bad_request", "conflict", "unavailable"};
static_assert(static_cast<std::size_t>(BindOutcome::kUnavailable) + 1 == kBindOutcomes.size());
constexpr std::array kTouchResults = {"unbound", "bound", "full", "gone", "failed"};
static_assert(static_cast<std::size_t>(TouchResult::kFailed) + 1 == kTouchResults.size());
constexpr std::array kRequeueOutcomes = {"requeued", "refused", "failed"};
static_assert(static_cast<std::size_t>(RequeueOutcome::kFailed) + 1 == kRequeueOutcomes.size());

double number(std::size_t count) {
  return static_cast<double>(count);
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Probe::Probe(Metrics& metrics, LedgerReader& ledger)
    : metrics_(metrics),
      ledger_(ledger),
      nodes_fitting_(counter("filter_nodes_total", kFilterNodes, {{"result", "fits"}})),
      nodes_refused_(counter("filter_nodes_total", kFilterNodes, {{"result", "refused"}})),
      bind_conflicts_(counter("bind_conflicts_total", "Bindings that were answered 409.")),
      filters_delayed_(counter("filters_delayed_total",
                               "Calls of filter that waited because many binds were in flight.")),
      verbs_refused_(counter("verbs_refused_total",
                             "Calls of kube-scheduler that were refused, because this replica does "
                             "not lead or is not ready.")),
      price_refreshes_(counter("price_refreshes_total", "Refreshes of the prices.")),
      price_refresh_seconds_(metrics.gauge("mgpu_extender_price_refresh_duration_seconds",
                                           "Duration of the last refresh of the prices.")) {
  create_series();
  add_process_metrics(metrics, "mgpu_extender");
  metrics.on_collect([this] { read_ledger(); });
}

// increase() in Prometheus misses the first event of a series that does not begin at 0.
void Probe::create_series() {
  for (const char* verb : {"filter", "prioritize", "prioritize-non-gpu", "preempt", "bind"}) {
    verb_seconds_[verb] =
        &metrics_.histogram("mgpu_extender_verb_duration_seconds",
                            "Time from the end of a request to its answer, by verb.",
                            latency_buckets_seconds(), {{"verb", verb}});
    bad_request(verb, 0);
  }
  for (std::size_t i = 0; i < kBindOutcomes.size(); ++i) bind_ended(BindOutcome(i), 0);
  for (std::size_t i = 0; i < kTouchResults.size(); ++i) pod_touched(TouchResult(i), 0);
  for (std::size_t i = 0; i < kRequeueOutcomes.size(); ++i) requeue_ended(RequeueOutcome(i), 0);
  preempted_by_card(0);
  for (const auto drift : {DriftKind::kChangedAnnotations, DriftKind::kBindingWithoutCards}) {
    drifted(drift, 0);
  }
  for (const char* resource : kResources) {
    watch_problem(resource, 0);
    unreadable_object(resource, 0);
  }
}

void Probe::set(const char* name, const char* help, double value, const Labels& labels) {
  metrics_.gauge(std::string("mgpu_extender_") + name, help, labels).Set(value);
}

Counter& Probe::counter(const char* name, const char* help, const Labels& labels) {
  return metrics_.counter(std::string("mgpu_extender_") + name, help, labels);
}

void Probe::read_ledger() {
  constexpr const char* kClaims = "Pods that hold cards, by phase.";
  const Counts counts = ledger_.counts();
  set("nodes", "Nodes in the ledger.", number(counts.nodes));
  set("cards", "Cards of the nodes in the ledger.", number(counts.cards));
  set("claims", kClaims, number(counts.assumed), {{"phase", "assumed"}});
  set("claims", kClaims, number(counts.bound), {{"phase", "bound"}});
  set("drifting_pods", "Bound pods whose annotations and cards do not agree.",
      number(counts.drifting));
  set("overfull_cards", "Cards with more in use than their capacity.", number(counts.overfull));
  set("expected_placements", "Pods between filter and bind.", number(counts.expected));
  set("nominated_pods", "Pods that are nominated for a node and for which cards are kept there.",
      number(counts.nominated));
  const auto advance = [](Counter& to, std::uint64_t count) {
    to.Increment(number(count) - to.Value());
  };
  advance(counter("search_steps_total",
                  "Steps of decisions about pods of several containers, some 20 ns each."),
          counts.search_steps);
  advance(counter("searches_limited_total",
                  "Decisions about pods of several containers that used up the steps of their "
                  "namespace."),
          counts.searches_limited);
}

void Probe::answered(const char* verb, std::chrono::nanoseconds took) {
  const auto found = verb_seconds_.find(verb);
  MGPU_CHECK(found != verb_seconds_.end(), "a verb");
  found->second->Observe(seconds(took));
}

void Probe::bad_request(std::string_view verb, double count) {
  counter("bad_requests_total", "Requests answered 400, by verb.", {{"verb", std::string(verb)}})
      .Increment(count);
}

void Probe::verb_refused() {
  verbs_refused_.Increment();
}

void Probe::filtered(std::size_t fitting, std::size_t refused) {
  nodes_fitting_.Increment(number(fitting));
  nodes_refused_.Increment(number(refused));
}

void Probe::bind_ended(BindOutcome outcome, double count) {
  counter("binds_total", "Binds answered, by outcome.",
          {{"outcome", kBindOutcomes.at(static_cast<std::size_t>(outcome))}})
      .Increment(count);
}

void Probe::bind_conflict() {
  bind_conflicts_.Increment();
}

void Probe::filter_delayed() {
  filters_delayed_.Increment();
}

void Probe::pod_touched(TouchResult result, double count) {
  counter("pod_touches_total",
          "Writes that change the resourceVersion of a pod whose binding is uncertain, by result.",
          {{"result", kTouchResults.at(static_cast<std::size_t>(result))}})
      .Increment(count);
}

void Probe::requeue_ended(RequeueOutcome outcome, double count) {
  counter("requeues_total", "Writes that make kube-scheduler try rejected pods again, by result.",
          {{"result", kRequeueOutcomes.at(static_cast<std::size_t>(outcome))}})
      .Increment(count);
}

void Probe::preempted_by_card(std::size_t victims) {
  counter(
      "card_preemptions_total",
      "Pods for which the extender has evicted others, since the sums of a node sufficed and no "
      "card did.")
      .Increment(victims > 0 ? 1 : 0);
  counter("card_preemption_victims_total", "Pods that were evicted for these.")
      .Increment(static_cast<double>(victims));
}

void Probe::drifted(DriftKind drift, double count) {
  counter("drifts_total",
          "Bound pods that were found not to match their cards, by kind of the difference.",
          {{"drift", std::string(to_string(drift))}})
      .Increment(count);
}

void Probe::prices_refreshed(std::chrono::milliseconds took) {
  price_refreshes_.Increment();
  price_refresh_seconds_.Set(seconds(took));
}

void Probe::watch_problem(const char* resource, double count) {
  counter("watch_problems_total", "Failed lists and watches, by resource.",
          {{"resource", resource}})
      .Increment(count);
}

void Probe::unreadable_object(const char* resource, double count) {
  counter("unreadable_objects_total",
          "Objects that could not be read and were skipped, by resource.", {{"resource", resource}})
      .Increment(count);
}

void Probe::watch_silence(const char* resource, std::chrono::milliseconds silence) {
  set("watch_silence_seconds", "Time since the API server's last answer, by resource.",
      seconds(silence), {{"resource", resource}});
}

void Probe::show(const ProcessState& state) {
  set("ready",
      "1 once it has listed nodes and pods, and has taken the lease or follows the leader.",
      state.ready ? 1 : 0);
  set("leader", "1 while this process decides: it has the lease, and is ready.",
      state.leader ? 1 : 0);
  set("binds_in_flight", "Binds that have begun and are not answered.",
      number(state.binds_in_flight));
  set("unsettled_pods", "Pending pods that the extender cannot change.",
      number(state.unsettled_pods));
  metrics_.replace({counters("mgpu_extender_events_dropped_total",
                             "Number of Events that were not sent, or whose request failed.",
                             {series({}, number(state.events_dropped))})});
}

void Probe::certificates_end(const std::map<std::string, std::chrono::sys_seconds>& ends) {
  for (const auto& [certificate, end] : ends) {
    set("certificate_expiry_timestamp_seconds",
        "When the certificate expires, in seconds since 1970, by certificate.",
        static_cast<double>(end.time_since_epoch().count()), {{"certificate", certificate}});
  }
}

}  // namespace mgpu::extender
