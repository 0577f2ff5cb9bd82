// The extender's metrics. The rest of the extender does not use Prometheus. Any thread.
//
//   mgpu_extender_verb_duration_seconds{verb}      from the end of the request to the answer
//   mgpu_extender_bad_requests_total{verb}         requests answered 400
//   mgpu_extender_verbs_refused_total              requests answered 503
//   mgpu_extender_filter_nodes_total{result}       "fits", "refused"
//   mgpu_extender_binds_total{outcome}             "bound", "unfit", "bad_request", "conflict",
//                                                  "unavailable"
//   mgpu_extender_binds_in_flight
//   mgpu_extender_bind_conflicts_total             POSTs of a binding that were answered 409
//   mgpu_extender_filters_delayed_total            see bind/binds_in_flight.h
//   mgpu_extender_pod_touches_total{result}        "unbound", "bound", "full", "gone", "failed"
//   mgpu_extender_requeues_total{result}           "requeued", "refused", "failed"
//   mgpu_extender_card_preemptions_total, _card_preemption_victims_total  see card_preemption.h
//   mgpu_extender_price_refreshes_total
//   mgpu_extender_price_refresh_duration_seconds   of the last refresh, which no request waits for
//   mgpu_extender_drifts_total{drift}              pods whose drift began or changed to this one
//   mgpu_extender_nodes, _cards, _claims{phase}, _drifting_pods, _overfull_cards,
//   mgpu_extender_expected_placements, _nominated_pods, _search_steps_total,
//   _searches_limited_total                        what the ledger holds and has counted
//   mgpu_extender_events_dropped_total             Events that were not written
//   mgpu_extender_ready                            1 once it has listed nodes and pods, and has
//                                                  taken the Lease or follows the leader
//   mgpu_extender_unsettled_pods                   pending pods that cannot be changed
//   mgpu_extender_leader                           1 while this process decides
//   mgpu_extender_certificate_expiry_timestamp_seconds{certificate}  "ca", "server", "client"
//   mgpu_extender_watch_problems_total{resource}   failed lists and watches
//   mgpu_extender_unreadable_objects_total{resource}  objects that were skipped
//   mgpu_extender_watch_silence_seconds{resource}  time since the API server's last answer
//   mgpu_extender_http_connections{listener}, mgpu_extender_http_refused_total{listener,why}
//                                                  see common/program/service_server.h
//   mgpu_extender_build_info{version}, process_resident_memory_bytes
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/base/metrics.h"
#include "extender/bind/binder.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/requeue/requeue.h"

namespace mgpu::extender {

// The state of the process at a scrape.
struct ProcessState {
  bool ready = false;
  bool leader = false;
  std::size_t binds_in_flight = 0;
  std::size_t unsettled_pods = 0;
  std::uint64_t events_dropped = 0;
};

class Probe {
 public:
  // `metrics` and `ledger` outlive the probe. The metrics are not collected after its end.
  Probe(Metrics& metrics, LedgerReader& ledger);

  // `verb` is "filter", "prioritize", "prioritize-non-gpu", "preempt" or "bind".
  void answered(const char* verb, std::chrono::nanoseconds took);
  // `count` is 0 for a series that is to exist from the start; so it is below.
  void bad_request(std::string_view verb, double count = 1);
  void verb_refused();
  void filtered(std::size_t fitting, std::size_t refused);
  void bind_ended(BindOutcome outcome, double count = 1);
  void bind_conflict();
  void filter_delayed();
  void pod_touched(TouchResult result, double count = 1);
  void requeue_ended(RequeueOutcome outcome, double count = 1);
  void preempted_by_card(std::size_t victims);
  void drifted(DriftKind drift, double count = 1);
  void prices_refreshed(std::chrono::milliseconds took);
  void watch_problem(const char* resource, double count = 1);
  void unreadable_object(const char* resource, double count = 1);
  void watch_silence(const char* resource, std::chrono::milliseconds silence);
  void show(const ProcessState& state);
  void certificates_end(const std::map<std::string, std::chrono::sys_seconds>& ends);

 private:
  // Names without "mgpu_extender_".
  void set(const char* name, const char* help, double value, const Labels& labels = {});
  Counter& counter(const char* name, const char* help, const Labels& labels = {});
  void create_series();
  void read_ledger();

  Metrics& metrics_;
  LedgerReader& ledger_;
  std::map<std::string_view, Histogram*> verb_seconds_;  // constant after construction
  Counter& nodes_fitting_;
  Counter& nodes_refused_;
  Counter& bind_conflicts_;
  Counter& filters_delayed_;
  Counter& verbs_refused_;
  Counter& price_refreshes_;
  Gauge& price_refresh_seconds_;
};

}  // namespace mgpu::extender
