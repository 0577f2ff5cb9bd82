// A minimal scheduler with kube-scheduler's extender protocol: it calls filter with the nodes that
// the pod may enter and that have enough extended resources in total, prioritize if more than one
// node is left, and bind with the best node. kube-scheduler's queues, plugins and preemption are
// not included.
//
// The protocol is that of Kubernetes 1.36, pkg/scheduler/extender.go and schedule_one.go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"

namespace mgpu::sim {

struct Decision {
  std::string node;    // empty if the pod was not placed
  std::string reason;  // why not, as in the event that kube-scheduler writes for the pod
};

class Scheduler {
 public:
  // REQUIRES: the transports outlive the scheduler.
  Scheduler(kube::Transport& api_server, kube::Transport& extender, std::string url_prefix);

  // Runs one scheduling cycle for a pending pod, given as JSON from the API server. Errors: a call
  // of the API server or the extender failed, or its response does not follow the protocol.
  Result<Decision> schedule(const std::string& pod);

 private:
  struct Cluster {
    std::vector<kube::Node> nodes;  // sorted by name
    std::vector<kube::Pod> pods;    // bound and not terminated
  };
  struct FilterResult {
    std::vector<std::string> nodes;
    std::map<std::string, int> reasons;  // number of nodes by reason
  };

  Result<Cluster> read_cluster();
  static FilterResult fit_nodes(const Cluster& cluster, const kube::Pod& pod);
  Result<void> filter(const std::string& pod, FilterResult& fits);
  Result<std::string> best(const std::string& pod, const std::vector<std::string>& nodes);
  Result<Decision> bind(const kube::Pod& pod, const std::string& node);
  Result<std::string> call_verb(const std::string& verb, std::string body);

  kube::Transport& api_server_;
  kube::Transport& extender_;
  std::string url_prefix_;
};

}  // namespace mgpu::sim
