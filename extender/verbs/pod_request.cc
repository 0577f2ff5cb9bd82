#include "extender/verbs/pod_request.h"

#include <utility>

#include "common/base/check.h"
#include "extender/ledger/node_resources.h"

namespace mgpu::extender {

Result<PodRequest> read_pod_request(const kube::Pod& pod, const Settings& settings) {
  MGPU_CHECK(settings.policy.node != nullptr && settings.policy.card != nullptr,
             "no default policy");
  auto request = read_request(pod, settings.contract, settings.min_memory);
  if (!request) return request.error();
  PodRequest read{.request = std::move(*request),
                  .policy = settings.policy,
                  .host = resources_of(pod),
                  .tie_break_seed = draw_of(pod.uid())};
  if (read.request.empty() || read.request.policy.empty()) return read;
  auto policy = find_policy(read.request.policy);
  if (!policy)
    return error("annotation " + settings.contract.policy + ": " + policy.error().message);
  read.policy = *policy;
  return read;
}

}  // namespace mgpu::extender
