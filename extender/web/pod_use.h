// What the containers of one pod use of their cards, from Prometheus, where there is one.
//
//   GET /web/use?namespace=N&pod=P
//     {"at": ms, "shares": [{"container", "card", "uuid", "core": amount, "memoryMiB": amount}*],
//      "message"?}
//   amount := {"granted"?, "used"?}     core in percent of the card; what is not known is left out
//
// "message" is why there are no shares. An answer is kept for kPodUseLife, and requests about the
// same pod wait for the same query.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/http/message.h"
#include "common/kube/transport.h"

namespace mgpu::extender {

// The pod of the query of a request. Errors: a name that Kubernetes does not accept.
Result<PodRef> pod_of_query(const std::string& query);
// The query for the use of a pod.
kube::Request use_request(const PodRef& pod, std::chrono::sys_seconds now);
// The body for its answer. Errors: no answer, or one that is not of this query.
Result<std::string> use_body(const kube::Response& response, const PodRef& pod,
                             std::int64_t unix_ms);

class PodUse {
 public:
  // `prometheus` outlives it, and may be null. Everything runs on `executor`, which is its
  // executor where there is one.
  PodUse(kube::Transport* prometheus, Executor& executor, std::function<std::int64_t()> unix_ms)
      : prometheus_(prometheus), executor_(executor), unix_ms_(std::move(unix_ms)) {}

  void answer(const std::string& query, const http::Respond& respond);

 private:
  struct Kept {
    Instant until{};
    std::string body;
  };

  void ask(const PodRef& pod);
  void take(const PodRef& pod, Result<std::string> body);

  kube::Transport* const prometheus_;
  Executor& executor_;
  const std::function<std::int64_t()> unix_ms_;
  std::map<PodRef, Kept> kept_;
  std::map<PodRef, std::vector<http::Respond>> waiting_;  // of the queries in flight
  CallbackGuard answers_;                                 // ends first
};

}  // namespace mgpu::extender
