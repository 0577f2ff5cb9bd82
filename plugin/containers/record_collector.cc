#include "plugin/containers/record_collector.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/containers/record_liveness.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

RecordCollector::RecordCollector(Dependencies dependencies, std::string resource,
                                 std::string plugin_folder)
    : dependencies_(std::move(dependencies)),
      resource_(std::move(resource)),
      plugin_folder_(std::move(plugin_folder)) {}

void RecordCollector::remove(const Record& record, const char* reason) {
  log_info("allocation removed", {{"allocation", record.id.str()},
                                  {"pod", record.owner ? to_string(record.owner->pod) : ""},
                                  {"reason", reason}});
  dependencies_.injector.remove(record.id);
  dependencies_.records.remove(record.id);
  if (dependencies_.on_removed) dependencies_.on_removed(record.id);
}

void RecordCollector::log_kept(const std::string& problem) {
  if (std::exchange(kept_because_, problem) == problem || problem.empty()) return;
  log_warn("the shares of ended pods stay in use until kubelet answers", {{"problem", problem}});
}

std::size_t RecordCollector::collect_ended() {
  auto records = dependencies_.records.bound();
  const auto drop_running = [&records](const RecordLiveness& liveness) {
    std::erase_if(records, [&](const Record& record) { return !liveness.ended(record); });
  };
  // kubelet limits the rate of calls, so it is called only if a pod may have ended.
  drop_running(liveness_of(dependencies_.pods, std::vector<ContainerDevices>(), Checkpoint(),
                           dependencies_.processes));
  if (records.empty()) return 0;
  const auto listed = dependencies_.pod_resources.list(resource_, kPodResourcesTimeout);
  log_kept(listed ? "" : listed.error().message);
  drop_running(liveness_of(dependencies_.pods, listed, read_checkpoint(plugin_folder_, resource_),
                           dependencies_.processes));
  for (const Record& record : records) remove(record, "its pod has ended");
  return records.size();
}

std::size_t RecordCollector::collect_unstarted() {
  auto records = dependencies_.records.all();
  std::erase_if(records, &Record::bound);
  const auto unknown_before = std::exchange(unknown_to_kubelet_, {});
  if (records.empty()) return 0;
  const auto checkpoint = read_checkpoint(plugin_folder_, resource_);
  if (!checkpoint) return 0;
  for (const CheckpointEntry& entry : checkpoint->entries) {
    std::erase_if(records, [&](const Record& record) { return record.id == entry.allocation; });
  }
  std::size_t removed = 0;
  for (const Record& record : records) {
    // kubelet writes its checkpoint after Allocate has returned: a new record may be missing once.
    if (unknown_before.contains(record.id)) {
      remove(record, "kubelet's checkpoint does not have it");
      ++removed;
    } else {
      unknown_to_kubelet_.insert(record.id);
    }
  }
  MGPU_DEBUG_CHECK(removed + unknown_to_kubelet_.size() == records.size(),
                   "each record is removed now, or may be the next time");
  return removed;
}

}  // namespace mgpu::plugin
