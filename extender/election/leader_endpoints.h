// The EndpointSlice of the Service that kube-scheduler calls: its only endpoint is the leader.
//
// The Service has no selector, so that Kubernetes writes no endpoints for it. All replicas can then
// be ready, as PodDisruptionBudgets and rolling updates expect it, and requests still reach the
// leader only.
//
//   start() ---> confirm the Lease ---> GET Service ---> GET EndpointSlice ---> equal: wait, again
//                       ^                    |                  |
//                       |                    +---no answer------+--differs---> POST or PUT
//                       +------------------ wait <------------------------------+
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "extender/bind/holder_lease.h"
#include "extender/election/limits.h"

namespace mgpu::extender {

struct EndpointOptions {
  kube::ObjectRef service;  // the EndpointSlice has its name
  std::string address;      // an IP address of this process that kube-scheduler reaches
};

// On the client's executor, except for the functions with another comment.
class LeaderEndpoints {
 public:
  // `client` and `lease` outlive it. `on_problem` gets one sentence for each failure.
  LeaderEndpoints(kube::Client& client, HolderLease& lease, EndpointOptions options,
                  std::function<void(const std::string& sentence)> on_problem);

  // Writes the EndpointSlice with this port, and keeps it so. Once.
  void start(std::uint16_t port);

 private:
  void confirm();
  void get_service();
  void get_slice(const kube::Service& service);
  void write_if_different(const kube::Service& service,
                          const kube::ApiResult<kube::EndpointSlice>& found);
  kube::EndpointSlice wanted(const kube::Service& service) const;
  void fail(const std::string& sentence);
  void wait(Duration delay);

  kube::Client& client_;
  HolderLease& lease_;
  const EndpointOptions options_;
  const std::function<void(const std::string&)> on_problem_;
  std::uint16_t port_ = 0;
  Backoff backoff_{kEndpointsRetryFirst, kEndpointsRetryMax};
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
