// Removes the records of ended pods, and what was injected for them.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "plugin/containers/pod_processes.h"
#include "plugin/containers/pods.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// One thread.
class RecordCollector {
 public:
  struct Dependencies {
    Records& records;
    Injector& injector;
    const Pods& pods;
    PodResources& pod_resources;
    const PodProcesses& processes;
    std::function<void(const AllocationId&)> on_removed{};  // may be empty
  };

  // All of `dependencies` outlive it. `plugin_folder` has kubelet's checkpoint.
  RecordCollector(Dependencies dependencies, std::string resource, std::string plugin_folder);

  // Returns how many records were removed.
  std::size_t collect() { return collect_ended() + collect_unstarted(); }

 private:
  std::size_t collect_ended();
  std::size_t collect_unstarted();
  void remove(const Record& record, const char* reason);
  // Logs the reason when it changes. It is empty if kubelet answers.
  void log_kept(const std::string& problem);

  const Dependencies dependencies_;
  const std::string resource_;
  const std::string plugin_folder_;
  // Unstarted allocations that were not in kubelet's checkpoint in the last call of collect().
  // kubelet writes the checkpoint shortly after the response to Allocate.
  std::set<AllocationId> unknown_to_kubelet_;
  std::string kept_because_;  // last logged
};

}  // namespace mgpu::plugin
