// The groups of the plugin Coscheduling. Their pods are scheduled one by one. Each waits in Permit,
// with its node, until there are as many as the group needs; then all are bound. Where one does not
// fit, and more than a tenth is missing, where a bind fails, a pod is deleted, or the time is over,
// those that wait are rejected. The others of the group are not tried at once when one waits, as
// they are there: a cycle takes longer here, and large groups would leave no time for other pods.
//
// After kubernetes-sigs/scheduler-plugins pkg/coscheduling/coscheduling.go.
#include <algorithm>

#include "test/simulation/scheduler.h"

namespace mgpu::simulation {
namespace {

constexpr Duration kPermitTimeout{60'000};
constexpr int kMissingPercent = 10;

}  // namespace

int Scheduler::placed_of(const PodGroup& group) const {
  return static_cast<int>(std::ranges::count_if(pods_, [&](const auto& entry) {
    const Pod& pod = entry.second;
    return pod.group && pod.group->name == group.name && !pod.node().empty() && !pod.pod.finished();
  }));
}

std::vector<PodUid> Scheduler::waiting_in_permit(const PodGroup& group) const {
  std::vector<PodUid> waiting;
  for (const auto& [uid, pod] : pods_)
    if (pod.waits_in_permit && pod.group->name == group.name) waiting.push_back(uid);
  return waiting;
}

void Scheduler::permit(const PodUid& uid, const std::string& node) {
  Pod& pod = pods_.at(uid);
  const PodGroup group = *pod.group;
  pod.assumed_node = node;
  pod.waits_in_permit = true;
  pod.since = executor().now();
  in_cycle_ = false;
  if (placed_of(group) < group.min_count) {
    nominate(uid, node);
    executor().after(kPermitTimeout, callbacks_.wrap([this, uid, group, since = pod.since] {
      const Pod* late = find(uid);
      if (late != nullptr && late->waits_in_permit && late->since == since) reject_waiting(group);
    }));
    return;
  }
  for (const PodUid& allowed : waiting_in_permit(group)) {
    Pod& member = pods_.at(allowed);
    member.waits_in_permit = false;
    bind(allowed, std::string(member.assumed_node));
  }
}

void Scheduler::reject_waiting(const PodGroup& group) {
  for (const PodUid& uid : waiting_in_permit(group)) {
    Pod& pod = pods_.at(uid);
    pod.waits_in_permit = false;
    pod.busy = false;
    pod.assumed_node.clear();
    nominate(uid, "");
    back_off(pod);
  }
  wake_all();
}

void Scheduler::reject_unless_few_are_missing(const PodGroup& group) {
  const int missing = group.min_count - placed_of(group);
  if (missing * 100 > group.min_count * kMissingPercent) reject_waiting(group);
}

}  // namespace mgpu::simulation
