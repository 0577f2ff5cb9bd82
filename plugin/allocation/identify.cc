#include "plugin/allocation/identify.h"

#include <algorithm>

namespace mgpu::plugin {

namespace {

using Identities = std::vector<Identity>;

std::string count(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

Result<Identities> of_checkpoint(const std::vector<CheckpointedContainer>& entries) {
  Identities found;
  for (const CheckpointedContainer& entry : entries) {
    if (!valid(entry.allocation)) {
      return error("kubelet holds an answer for container \"" + entry.container + "\" of pod uid " +
                   entry.uid.str() +
                   " that is not ours; delete the pod so that its devices are allocated again");
    }
    if (entry.uid != entries.front().uid) {
      return error("kubelet's checkpoint gives these devices to two pods, uid " +
                   entries.front().uid.str() + " and uid " + entry.uid.str());
    }
    found.push_back({entry.allocation, std::nullopt, entry.uid, entry.container});
  }
  return found;
}

Identity of_owner(const Record& record) {
  return {record.id, record.owner->pod, record.owner->uid, record.owner->container};
}

Error doubt(const Evidence& evidence) {
  const std::string listed =
      evidence.listed
          ? "its PodResources list has " + count(evidence.listed->size(), "container", "containers")
          : std::string("its PodResources list cannot be had");
  const std::string checkpoint = evidence.checkpointed
                                     ? "its checkpoint has none"
                                     : std::string("its checkpoint cannot be read");
  return error("cannot tell which container kubelet starts: " + listed + " with these devices, " +
               checkpoint + ", and " +
               count(evidence.records.size(), "allocation is", "allocations are") + " known");
}

}  // namespace

bool identified_by_list(const Evidence& evidence) {
  return evidence.records.size() == 1 && evidence.listed && evidence.listed->size() == 1;
}

Result<Identities> identify(const Evidence& evidence) {
  if (evidence.checkpointed && !evidence.checkpointed->empty()) {
    return of_checkpoint(*evidence.checkpointed);
  }
  if (identified_by_list(evidence)) {
    const ListedContainer& listed = evidence.listed->front();
    return Identities{{evidence.records.front().id, listed.pod, PodUid(), listed.container}};
  }
  const bool silent = !evidence.listed || evidence.listed->empty();
  if (silent && evidence.records.size() == 1 && evidence.records.front().bound()) {
    return Identities{of_owner(evidence.records.front())};
  }
  return doubt(evidence);
}

}  // namespace mgpu::plugin
