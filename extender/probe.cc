#include "extender/probe.h"

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/program/service_routes.h"

namespace mgpu::extender {

namespace {

constexpr const char* kFilterNodes = "Nodes that filter was asked about.";
constexpr const char* kClaims = "Pods that hold cards, by phase.";
constexpr std::array kVerbs = {"filter", "prioritize", "prioritize-non-gpu", "preempt", "bind"};

const char* name_of(BindOutcome outcome) {
  switch (outcome) {
    case BindOutcome::kBound:
      return "bound";
    case BindOutcome::kUnfit:
      return "unfit";
    case BindOutcome::kBadRequest:
      return "bad_request";
    case BindOutcome::kConflict:
      return "conflict";
    case BindOutcome::kUnavailable:
      return "unavailable";
  }
  return "unknown";
}

const char* name_of(RequeueOutcome outcome) {
  switch (outcome) {
    case RequeueOutcome::kRequeued:
      return "requeued";
    case RequeueOutcome::kRefused:
      return "refused";
    case RequeueOutcome::kFailed:
      return "failed";
  }
  return "unknown";
}

double number(std::size_t count) {
  return static_cast<double>(count);
}

}  // namespace

Probe::Probe(Metrics& metrics, Ledger& ledger)
    : metrics_(metrics),
      ledger_(ledger),
      nodes_fitting_(counter("filter_nodes_total", kFilterNodes, {{"result", "fits"}})),
      nodes_refused_(counter("filter_nodes_total", kFilterNodes, {{"result", "refused"}})),
      price_refreshes_(counter("price_refreshes_total", "Times that prices were found anew.", {})),
      price_refresh_seconds_(
          gauge("price_refresh_duration_seconds", "What finding prices took the last time.")),
      nodes_(gauge("nodes", "Nodes known.")),
      cards_(gauge("cards", "Cards of the nodes known.")),
      assumed_(gauge("claims", kClaims, {{"phase", "assumed"}})),
      bound_(gauge("claims", kClaims, {{"phase", "bound"}})),
      drifting_(gauge("drifting_pods", "Bound pods whose cards are not known for certain.")),
      overfull_(gauge("overfull_cards", "Cards with more used than they have.")),
      expected_(gauge("expected_placements", "Pods between filter and bind.")),
      ready_(gauge("ready", "1 once nodes, pods and budgets have been listed.")),
      binds_in_flight_(gauge("binds_in_flight", "Binds begun and not answered.")),
      connections_(gauge("http_connections", "Open connections.")) {
  for (const char* verb : kVerbs) {
    verb_seconds_[verb] = &metrics.histogram("mgpu_extender_verb_duration_seconds",
                                             "From a verb's whole request to its answer.",
                                             latency_buckets_seconds(), {{"verb", verb}});
  }
  // Series that are counted from zero on.
  for (const auto outcome : {BindOutcome::kBound, BindOutcome::kUnfit, BindOutcome::kBadRequest,
                             BindOutcome::kConflict, BindOutcome::kUnavailable}) {
    binds(outcome);
  }
  for (const auto outcome :
       {RequeueOutcome::kRequeued, RequeueOutcome::kRefused, RequeueOutcome::kFailed}) {
    wakes(outcome);
  }
  add_process_metrics(metrics, "mgpu_extender");
  metrics.on_collect([this] { read_ledger(); });
}

Gauge& Probe::gauge(const char* name, const char* help, const Labels& labels) {
  return metrics_.gauge(std::string("mgpu_extender_") + name, help, labels);
}

Counter& Probe::counter(const char* name, const char* help, const Labels& labels) {
  return metrics_.counter(std::string("mgpu_extender_") + name, help, labels);
}

Counter& Probe::binds(BindOutcome outcome) {
  return counter("binds_total", "Binds answered, by how they ended.",
                 {{"outcome", name_of(outcome)}});
}

Counter& Probe::wakes(RequeueOutcome outcome) {
  return counter("requeues_total", "Times that kube-scheduler was woken for a refused pod.",
                 {{"result", name_of(outcome)}});
}

void Probe::read_ledger() {
  const Counts counts = ledger_.counts();
  nodes_.Set(number(counts.nodes));
  cards_.Set(number(counts.cards));
  assumed_.Set(number(counts.assumed));
  bound_.Set(number(counts.bound));
  drifting_.Set(number(counts.drifting));
  overfull_.Set(number(counts.overfull));
  expected_.Set(number(counts.expected));
}

void Probe::before_reading(std::function<void()> tell) {
  metrics_.on_collect(std::move(tell));
}

void Probe::answered(const char* verb, std::chrono::nanoseconds took) {
  const auto found = verb_seconds_.find(verb);
  MGPU_CHECK(found != verb_seconds_.end(), "a verb");
  found->second->Observe(std::chrono::duration<double>(took).count());
}

void Probe::filtered(std::size_t fitting, std::size_t refused) {
  nodes_fitting_.Increment(number(fitting));
  nodes_refused_.Increment(number(refused));
}

void Probe::bind_ended(BindOutcome outcome) {
  binds(outcome).Increment();
}

void Probe::requeue_ended(RequeueOutcome outcome) {
  wakes(outcome).Increment();
}

void Probe::prices_refreshed(std::chrono::milliseconds took) {
  price_refreshes_.Increment();
  price_refresh_seconds_.Set(std::chrono::duration<double>(took).count());
}

void Probe::bad_request(const char* verb) {
  counter("bad_requests_total", "Requests answered 400.", {{"verb", verb}}).Increment();
}

void Probe::watch_problem(const char* resource) {
  counter("watch_problems_total", "Failed lists and watches.", {{"resource", resource}})
      .Increment();
}

void Probe::unreadable_object(const char* resource) {
  counter("unreadable_objects_total", "Objects that could not be read, and were skipped.",
          {{"resource", resource}})
      .Increment();
}

void Probe::watch_silence(const char* resource, std::chrono::milliseconds silence) {
  gauge("watch_silence_seconds", "Since the API server was last heard of.",
        {{"resource", resource}})
      .Set(std::chrono::duration<double>(silence).count());
}

void Probe::ready(bool ready) {
  ready_.Set(ready ? 1 : 0);
}
void Probe::binds_in_flight(std::size_t in_flight) {
  binds_in_flight_.Set(number(in_flight));
}
void Probe::connections(std::size_t open) {
  connections_.Set(number(open));
}

void Probe::connection_refused(const char* why) {
  counter("http_refused_total", "Connections refused or cut, by why.", {{"why", why}}).Increment();
}

}  // namespace mgpu::extender
