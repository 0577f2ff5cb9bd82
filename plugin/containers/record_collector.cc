#include "plugin/containers/record_collector.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "plugin/containers/record_liveness.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

RecordCollector::RecordCollector(Parts parts, std::string resource, std::string plugin_folder)
    : parts_(parts), resource_(std::move(resource)), plugin_folder_(std::move(plugin_folder)) {}

std::size_t RecordCollector::collect() {
  return collect_ended() + collect_unstarted();
}

void RecordCollector::remove(const Record& record, const char* why) {
  log_info("allocation is removed", {{"allocation", record.id.str()},
                                     {"pod", record.owner ? to_string(record.owner->pod) : ""},
                                     {"why", why}});
  parts_.injector.remove(record.id);
  parts_.records.remove(record.id);
}

std::size_t RecordCollector::collect_ended() {
  const auto bound = parts_.records.bound();
  RecordLiveness presence{
      .gone_at_api_server = [this](const PodUid& uid) { return parts_.pods.gone(uid); },
      .kubelet_answered = true,
      .at_kubelet = {},
      .remade_at_api_server = [this](const PodRef& pod,
                                     const PodUid& uid) { return parts_.pods.remade(pod, uid); }};
  // kubelet limits how often it is asked by everybody together.
  if (ended(bound, presence).empty()) return 0;
  const auto listed = parts_.pod_resources.list(resource_, kPodResourcesTimeout);
  if (!listed) return 0;
  for (const auto& one : *listed) presence.at_kubelet.insert(one.pod);
  const auto gone = ended(bound, presence);
  for (const Record& record : gone) remove(record, "its pod is gone");
  return gone.size();
}

std::size_t RecordCollector::collect_unstarted() {
  auto records = parts_.records.all();
  std::erase_if(records, &Record::bound);
  const auto before = std::exchange(unknown_to_kubelet_, {});
  if (records.empty()) return 0;
  const auto checkpoint = read_checkpoint(plugin_folder_, resource_);
  if (!checkpoint) return 0;
  std::size_t removed = 0;
  for (const Record& record : records) {
    const auto at = std::ranges::find(checkpoint->entries, record.id, &CheckpointEntry::allocation);
    if (at != checkpoint->entries.end()) continue;
    if (before.contains(record.id)) {
      remove(record, "kubelet does not know it");
      ++removed;
    } else {
      unknown_to_kubelet_.insert(record.id);
    }
  }
  return removed;
}

}  // namespace mgpu::plugin
