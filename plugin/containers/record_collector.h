// Removes what belongs to pods that are gone: records, and what was injected for them. Only when
// the API server and kubelet both say so.
#pragma once

#include <set>
#include <string>

#include "plugin/containers/pods.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// One thread.
class RecordCollector {
 public:
  struct Parts {
    Records& records;
    Injector& injector;
    const Pods& pods;
    PodResources& pod_resources;
  };

  // All of `parts` outlive it. `plugin_folder` has kubelet's checkpoint.
  RecordCollector(Parts parts, std::string resource, std::string plugin_folder);

  // One look; asks kubelet only where something may have gone. How many records were removed.
  std::size_t collect();

 private:
  std::size_t collect_ended();
  std::size_t collect_unstarted();
  void remove(const Record& record, const char* why);

  const Parts parts_;
  const std::string resource_;
  const std::string plugin_folder_;
  // Unstarted allocations that kubelet's checkpoint did not have at the last look: it writes it a
  // moment after our answer.
  std::set<AllocationId> unknown_to_kubelet_;
};

}  // namespace mgpu::plugin
