#include <utility>

#include "test/simulation/scheduler.h"

namespace mgpu::simulation {

Scheduler::GroupCycle Scheduler::cycle_of(const PodGroup& group) const {
  GroupCycle cycle{.group = group, .pods = {}, .fit = {}};
  for (const auto& [uid, pod] : pods_) {
    if (!pod.group || pod.group->name != group.name) continue;
    if (pod.queued()) cycle.pods.push_back(uid);
    if (!pod.node().empty() && !pod.pod.finished()) ++cycle.placed;
  }
  return cycle;
}

void Scheduler::schedule_group(const PodGroup& group) {
  GroupCycle cycle = cycle_of(group);
  for (const PodUid& uid : cycle.pods) pods_.at(uid).busy = true;
  place_next(std::move(cycle));
}

// What is placed counts for the next pods, and nothing is bound meanwhile.
void Scheduler::place_next(GroupCycle cycle) {
  while (cycle.left() > 0 &&
         static_cast<int>(cycle.placed + cycle.left()) >= cycle.group.min_count) {
    const PodUid uid = cycle.pods[cycle.asked++];
    const Pod* pod = find(uid);
    if (pod == nullptr || pod->pod.metadata.being_deleted) continue;
    const auto nodes = nodes_with_room(uid);
    if (nodes.empty()) continue;
    return select(uid, nodes,
                  [this, uid, cycle = std::move(cycle)](const Selected& selected) mutable {
                    Pod* asked = find(uid);
                    if (!selected.answered && asked != nullptr)
                      return end_group_cycle(cycle, false);
                    if (asked != nullptr && !selected.node.empty()) {
                      asked->assumed_node = selected.node;
                      cycle.fit.push_back(uid);
                      ++cycle.placed;
                    }
                    place_next(std::move(cycle));
                  });
  }
  end_group_cycle(cycle, true);
}

void Scheduler::end_group_cycle(const GroupCycle& cycle, bool answered) {
  in_cycle_ = false;
  for (const PodUid& uid : cycle.pods) {
    if (Pod* pod = find(uid)) pod->busy = false;
  }
  const bool fits = answered && static_cast<int>(cycle.placed) >= cycle.group.min_count;
  for (const PodUid& uid : cycle.fit) {
    Pod* pod = find(uid);
    if (pod == nullptr) continue;
    pod->busy = fits;
    fits ? bind(uid, std::string(pod->assumed_node)) : pod->assumed_node.clear();
  }
  back_off(groups_[cycle.group.name]);
}

}  // namespace mgpu::simulation
