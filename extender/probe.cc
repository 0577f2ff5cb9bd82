#include "extender/probe.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace mgpu {

namespace {

constexpr std::array kVerbs = {"filter", "prioritize", "prioritize-plain", "preempt", "bind"};

const char* name(verbs::BindOutcome outcome) {
  switch (outcome) {
    case verbs::BindOutcome::kBound:
      return "bound";
    case verbs::BindOutcome::kUnfit:
      return "unfit";
    case verbs::BindOutcome::kBadRequest:
      return "bad_request";
    case verbs::BindOutcome::kConflict:
      return "conflict";
    case verbs::BindOutcome::kUnavailable:
      return "unavailable";
  }
  return "unknown";
}

const char* name(verbs::WakeOutcome outcome) {
  switch (outcome) {
    case verbs::WakeOutcome::kWoken:
      return "woken";
    case verbs::WakeOutcome::kRefused:
      return "refused";
    case verbs::WakeOutcome::kFailed:
      return "failed";
  }
  return "unknown";
}

// Zero where /proc is not there.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double count(std::size_t number) {
  return static_cast<double>(number);
}

}  // namespace

struct Probe::State {
  State(Metrics& its_metrics, ledger::Ledger& its_ledger)
      : metrics(its_metrics), ledger(its_ledger) {
    for (const char* verb : kVerbs) seconds[verb] = &verb_seconds(verb);
  }

  Gauge& gauge(const char* its_name, const char* help, const Labels& labels = {}) {
    return metrics.gauge(std::string("mgpu_extender_") + its_name, help, labels);
  }
  Counter& counter(const char* its_name, const char* help, const Labels& labels) {
    return metrics.counter(std::string("mgpu_extender_") + its_name, help, labels);
  }
  Histogram& verb_seconds(const char* verb) {
    return metrics.histogram("mgpu_extender_verb_duration_seconds",
                             "From a verb's whole request to its answer.",
                             latency_buckets_seconds(), {{"verb", verb}});
  }
  Counter& binds(verbs::BindOutcome outcome) {
    return counter("binds_total", "Binds answered, by how they ended.",
                   {{"outcome", name(outcome)}});
  }
  Counter& wakes(verbs::WakeOutcome outcome) {
    return counter("wakes_total", "Times that kube-scheduler was woken for a refused pod.",
                   {{"result", name(outcome)}});
  }
  Counter& filtered(const char* result) {
    return counter("filter_nodes_total", "Nodes that filter was asked about.",
                   {{"result", result}});
  }
  Gauge& claims(const char* phase) {
    return gauge("claims", "Pods that hold cards, by phase.", {{"phase", phase}});
  }
  void tell_ledger();

  Metrics& metrics;
  ledger::Ledger& ledger;
  std::map<std::string_view, Histogram*> seconds;  // constant after construction
  Counter& fitting = filtered("fits");
  Counter& refused = filtered("refused");
  Counter& markets = counter("markets_made_total", "Times that prices were found anew.", {});
  Gauge& market_seconds = gauge("market_make_seconds", "What finding prices took the last time.");
  Gauge& nodes = gauge("nodes", "Nodes known.");
  Gauge& cards = gauge("cards", "Cards of the nodes known.");
  Gauge& assumed = claims("assumed");
  Gauge& bound = claims("bound");
  Gauge& drifting = gauge("drifting_pods", "Bound pods whose cards are not known for certain.");
  Gauge& overfull = gauge("overfull_cards", "Cards with more used than they have.");
  Gauge& expected = gauge("expected_placements", "Pods between filter and bind.");
  Gauge& is_ready = gauge("ready", "1 once nodes, pods and budgets have been listed.");
  Gauge& in_flight = gauge("binds_in_flight", "Binds begun and not answered.");
  Gauge& open = gauge("http_connections", "Open connections.");
  Gauge& resident =
      metrics.gauge("process_resident_memory_bytes", "Memory of this process in RAM.");
};

void Probe::State::tell_ledger() {
  const ledger::Counts counts = ledger.counts();
  nodes.Set(count(counts.nodes));
  cards.Set(count(counts.cards));
  assumed.Set(count(counts.assumed));
  bound.Set(count(counts.bound));
  drifting.Set(count(counts.drifting));
  overfull.Set(count(counts.overfull));
  expected.Set(count(counts.expected));
  resident.Set(resident_bytes());
}

Probe::Probe(Metrics& metrics, ledger::Ledger& ledger)
    : state_(std::make_unique<State>(metrics, ledger)) {
  using verbs::BindOutcome;
  for (const auto outcome : {BindOutcome::kBound, BindOutcome::kUnfit, BindOutcome::kBadRequest,
                             BindOutcome::kConflict, BindOutcome::kUnavailable}) {
    state_->binds(outcome);
  }
  using verbs::WakeOutcome;
  for (const auto outcome : {WakeOutcome::kWoken, WakeOutcome::kRefused, WakeOutcome::kFailed}) {
    state_->wakes(outcome);
  }
  state_->gauge("build_info", "1, labelled with what runs.", {{"version", MGPU_VERSION}}).Set(1);
  metrics.on_collect([this] { state_->tell_ledger(); });
}

Probe::~Probe() = default;

void Probe::before_reading(std::function<void()> tell) {
  state_->metrics.on_collect(std::move(tell));
}

void Probe::answered(const char* verb, std::chrono::nanoseconds took) {
  const auto found = state_->seconds.find(verb);
  MGPU_CHECK(found != state_->seconds.end(), "a verb");
  found->second->Observe(std::chrono::duration<double>(took).count());
}

void Probe::filtered(std::size_t fitting, std::size_t refused) {
  state_->fitting.Increment(count(fitting));
  state_->refused.Increment(count(refused));
}

void Probe::bind_ended(verbs::BindOutcome outcome) {
  state_->binds(outcome).Increment();
}

void Probe::wake_ended(verbs::WakeOutcome outcome) {
  state_->wakes(outcome).Increment();
}

void Probe::market_made(std::chrono::milliseconds took) {
  state_->markets.Increment();
  state_->market_seconds.Set(std::chrono::duration<double>(took).count());
}

void Probe::bad_request(const char* verb) {
  state_->counter("bad_requests_total", "Requests answered 400.", {{"verb", verb}}).Increment();
}

void Probe::watch_problem(const char* resource) {
  state_->counter("watch_problems_total", "Failed lists and watches.", {{"resource", resource}})
      .Increment();
}

void Probe::unreadable_object(const char* resource) {
  state_
      ->counter("unreadable_objects_total", "Objects that could not be read, and were skipped.",
                {{"resource", resource}})
      .Increment();
}

void Probe::watch_silence(const char* resource, std::chrono::milliseconds silence) {
  state_
      ->gauge("watch_silence_seconds", "Since the API server was last heard of.",
              {{"resource", resource}})
      .Set(std::chrono::duration<double>(silence).count());
}

void Probe::ready(bool ready) {
  state_->is_ready.Set(ready ? 1 : 0);
}
void Probe::binds_in_flight(std::size_t in_flight) {
  state_->in_flight.Set(count(in_flight));
}
void Probe::connections(std::size_t open) {
  state_->open.Set(count(open));
}

void Probe::connection_refused(const char* why) {
  state_->counter("http_refused_total", "Connections refused or cut, by why.", {{"why", why}})
      .Increment();
}

}  // namespace mgpu
