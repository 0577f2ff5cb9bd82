// A scheduler loop that speaks kube-scheduler's protocol to an extender, word for word: filter with
// the nodes whose sums suffice, prioritize when more than one is left, bind on the best. The rest
// of kube-scheduler (queues, plugins, preemption) is not here.
//
// Protocol: kubernetes pkg/scheduler/extender.go and schedule_one.go, 1.36.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "common/kube/transport.h"

namespace mgpu::sim {

struct Decision {
  std::string node;    // empty: not placed
  std::string reason;  // why not, as kube-scheduler writes it in the pod's event
};

class Scheduler {
 public:
  // Both transports and the contract outlive the scheduler.
  Scheduler(kube::Transport& api_server, kube::Transport& extender, const Contract& contract,
            std::string url_prefix);

  // One scheduling cycle of one pending pod (JSON as the API server gives it).
  // Errors: the API server or the extender did not answer, or not in the protocol.
  Result<Decision> schedule(const std::string& pod);

 private:
  struct Cluster {
    std::vector<kube::Node> nodes;  // ascending by name
    std::vector<kube::Pod> pods;    // bound and not finished
  };
  struct Fits {
    std::vector<std::string> nodes;
    std::map<std::string, int> refusals;  // sentence -> how many nodes
  };

  Result<Cluster> read_cluster();
  Fits fit_sums(const Cluster& cluster, const kube::Pod& pod) const;
  Result<void> filter(const std::string& pod, Fits& fits);
  Result<std::string> best(const std::string& pod, const std::vector<std::string>& nodes);
  Result<Decision> bind(const kube::Pod& pod, const std::string& node);
  Result<std::string> context(const std::string& verb, std::string body);

  kube::Transport& api_server_;
  kube::Transport& extender_;
  const Contract& contract_;
  std::string url_prefix_;
};

}  // namespace mgpu::sim
