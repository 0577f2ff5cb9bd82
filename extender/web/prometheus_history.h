// The history of the last day from a Prometheus that scrapes the extenders. Not thread-safe.
//
//   Idle --poll(), kPrometheusInterval after the last query--> Asking --answer--> Idle
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/kube/transport.h"
#include "extender/web/history.h"

namespace mgpu::extender {

// The query for the history until `now`. All replicas export the same values, so that it takes
// the maximum.
kube::Request history_request(std::chrono::sys_seconds now);
// The points in its answer, in the order of time. Errors: no answer, or one that is not of this
// query; Prometheus has no such series.
Result<std::vector<HistoryPoint>> history_in(const kube::Response& response,
                                             std::chrono::sys_seconds now);

// The query for the pods that have held cards for an hour and used almost nothing of them.
kube::Request idle_request(std::chrono::sys_seconds now);
// Returns at most kIdlePodsMax pods; none if they are not known.
std::vector<PodRef> idle_in(const kube::Response& response);

class PrometheusHistory {
 public:
  // `prometheus` outlives it; its executor runs everything.
  PrometheusHistory(kube::Transport& prometheus, std::function<std::int64_t()> unix_ms)
      : prometheus_(prometheus), unix_ms_(std::move(unix_ms)) {}

  // Sends the queries if they are due. To be called while a page is open.
  void poll(Instant now);
  // Increases with each pair of answers; 0 before the first one.
  std::uint64_t version() const { return version_; }
  // The points of the last answer. Empty: `problem` has the reason.
  const std::vector<HistoryPoint>& points() const { return points_; }
  const std::string& problem() const { return problem_; }
  const std::vector<PodRef>& idle() const { return idle_; }

 private:
  void take(Result<std::vector<HistoryPoint>> points, std::chrono::sys_seconds time);
  void take_idle(std::vector<PodRef> pods);

  kube::Transport& prometheus_;
  const std::function<std::int64_t()> unix_ms_;
  bool asking_ = false;
  std::optional<Instant> asked_;
  std::uint64_t version_ = 0;
  std::vector<HistoryPoint> points_;
  std::string problem_;
  std::vector<PodRef> idle_;
  CallbackGuard answers_;  // ends first
};

}  // namespace mgpu::extender
