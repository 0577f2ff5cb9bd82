#include "plugin/allocation/identify.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/text.h"

namespace mgpu::plugin {

namespace {

using Identities = std::vector<Identity>;

bool identified_by_list(const Evidence& evidence) {
  return evidence.records.size() == 1 && evidence.listed && evidence.listed->size() == 1;
}

// The pod that PodResources lists, if it lists one container and the entries have it: the devices
// are those of one pod.
std::optional<PodRef> listed_pod(const Evidence& evidence) {
  if (!evidence.listed || evidence.listed->size() != 1) return std::nullopt;
  const ListedContainer& listed = evidence.listed->front();
  const auto& entries = *evidence.checkpointed;
  const auto entry =
      std::ranges::find(entries, listed.container, &CheckpointedContainer::container);
  return entry == entries.end() ? std::nullopt : std::optional(listed.pod);
}

Result<Identities> identify_by_checkpoint(const Evidence& evidence) {
  MGPU_DEBUG_CHECK(evidence.checkpointed && !evidence.checkpointed->empty(),
                   "the checkpoint has entries with these devices");
  const auto& entries = *evidence.checkpointed;
  const auto pod = listed_pod(evidence);
  Identities found;
  for (const CheckpointedContainer& entry : entries) {
    if (!valid(entry.allocation)) {
      return error(fmt::format(
          "kubelet's response for container {} of pod uid {} is not ours; delete the pod so that "
          "its devices are allocated again",
          in_quotes(entry.container), entry.uid.str()));
    }
    if (entry.uid != entries.front().uid) {
      return error(
          fmt::format("kubelet's checkpoint gives these devices to two pods, uid {} and uid {}",
                      entries.front().uid.str(), entry.uid.str()));
    }
    found.push_back({entry.allocation, pod, entry.uid, entry.container});
  }
  return found;
}

std::string count(std::size_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace

Result<Identities> identify(const Evidence& evidence) {
  if (evidence.checkpointed && !evidence.checkpointed->empty()) {
    return identify_by_checkpoint(evidence);
  }
  if (identified_by_list(evidence)) {
    const ListedContainer& listed = evidence.listed->front();
    return Identities{{evidence.records.front().id, listed.pod, PodUid(), listed.container}};
  }
  const bool listed = evidence.listed && !evidence.listed->empty();
  if (!listed && evidence.records.size() == 1 && evidence.records.front().bound()) {
    const Record& record = evidence.records.front();
    const Owner& owner = *record.owner;
    return Identities{{record.id, owner.pod, owner.uid, owner.container}};
  }
  const std::size_t records = evidence.records.size();
  return error(fmt::format(
      "cannot identify the container that kubelet starts: its PodResources list {}, its checkpoint "
      "{}, "
      "and "
      "{} {} known",
      evidence.listed ? "has " + count(evidence.listed->size(), "container") + " with these devices"
                      : "is unavailable",
      evidence.checkpointed ? "has none" : "cannot be read", count(records, "allocation"),
      records == 1 ? "is" : "are"));
}

}  // namespace mgpu::plugin
