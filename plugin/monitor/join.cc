#include "plugin/monitor/join.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"
#include "common/contract/limits.h"

namespace mgpu::plugin {
namespace {

using Key = std::tuple<PodUid, std::string, CardUuid>;  // a container on a card
using PodCard = std::pair<PodUid, CardUuid>;

// Limited to the memory of a card, so that sums do not overflow.
MiB memory_of(const ProcessSample& process) {
  constexpr MiB kMost{kCardMemoryMiBMax};
  return std::min(process.memory.value_or(MiB{}), kMost);
}

void add(const ProcessSample& process, ContainerUse& use) {
  ++use.processes;
  if (process.without_mps) ++use.without_mps;
  use.memory_used += memory_of(process);
  MGPU_CHECK(use.without_mps <= use.processes, "each process is counted once");
  const auto sm = process.sm_percent;
  if (!sm || !(*sm >= 0 && *sm <= 100)) return;
  const bool on_part = process.client && use.part_of_one_card;
  const auto part = static_cast<double>(use.grant.share.core.value()) / 100;
  const double percent = on_part ? *sm * part : *sm;
  use.sm_percent = std::min(100.0, use.sm_percent.value_or(0) + percent);
  MGPU_CHECK(*use.sm_percent >= 0, "a process does not give compute back");
}

// Whether the memory of each process is that of one container, or of none.
bool counts_all(const Joined& joined, const std::vector<ProcessSample>& processes) {
  MiB sampled;
  for (const ProcessSample& process : processes) sampled += memory_of(process);
  MiB counted;
  for (const ContainerUse& use : joined.containers) counted += use.memory_used;
  for (const auto& [card, memory] : joined.unmanaged) counted += memory;
  return sampled == counted;
}

// Finds the entry of a process.
class Grants {
 public:
  explicit Grants(const std::vector<Record>& records) {
    for (const Record& record : records) {
      if (!record.bound()) continue;
      for (const CardGrant& grant : record.cards) add_grant(record, grant);
    }
  }

  // Returns null if the process holds no share of its card.
  ContainerUse* find(const ProcessSample& process, const ContainerNames& names) {
    if (!process.container) return nullptr;
    const PodUid& pod = process.container->uid;
    const auto name = names.find(process.container->container_id);
    if (name == names.end()) return only_one(pod, process.card);
    const auto found = by_container_.find({pod, name->second, process.card});
    if (found == by_container_.end()) return nullptr;
    MGPU_CHECK(uses_[found->second].grant.uuid == process.card, "the index has the card");
    return &uses_[found->second];
  }

  std::vector<ContainerUse> take() {
    std::map<PodUid, std::int32_t> last;
    for (const ContainerUse& use : uses_) {
      std::int32_t& position = last[use.owner.uid];
      position = std::max(position, use.owner.position);
    }
    for (ContainerUse& use : uses_) {
      const Owner& owner = use.owner;
      use.followed = owner.kind == ContainerKind::kInit && owner.position < last[owner.uid];
    }
    return std::move(uses_);
  }

 private:
  void add_grant(const Record& record, const CardGrant& grant) {
    const Owner& owner = *record.owner;
    const auto [at, is_new] =
        by_container_.try_emplace({owner.uid, owner.container, grant.uuid}, uses_.size());
    if (!is_new) return;
    by_pod_[{owner.uid, grant.uuid}].push_back(uses_.size());
    uses_.push_back({owner, grant, MiB{}, std::nullopt, 0, is_part_of_one_card(record), 0});
    MGPU_CHECK(by_container_.size() == uses_.size(), "each use is indexed once");
  }

  // An ordinary init container that a later one has followed does not run, and Kubernetes gives its
  // room to those that follow.
  ContainerUse* only_one(const PodUid& pod, const CardUuid& card) {
    const auto found = by_pod_.find({pod, card});
    if (found == by_pod_.end()) return nullptr;
    std::int32_t last = 0;
    for (const std::size_t at : found->second) last = std::max(last, uses_[at].owner.position);
    ContainerUse* only = nullptr;
    for (const std::size_t at : found->second) {
      const Owner& owner = uses_[at].owner;
      if (owner.kind == ContainerKind::kInit && owner.position < last) continue;
      if (only != nullptr) return nullptr;
      only = &uses_[at];
    }
    return only;
  }

  std::vector<ContainerUse> uses_;
  std::map<Key, std::size_t> by_container_;  // index into uses_
  std::map<PodCard, std::vector<std::size_t>> by_pod_;
};

}  // namespace

Joined join(const std::vector<Record>& records, const std::vector<ProcessSample>& processes,
            const ContainerNames& names) {
  Grants grants(records);
  Joined joined;
  for (const ProcessSample& process : processes) {
    if (ContainerUse* const use = grants.find(process, names)) {
      add(process, *use);
    } else {
      joined.unmanaged[process.card] += memory_of(process);
    }
  }
  joined.containers = grants.take();
  MGPU_CHECK(counts_all(joined, processes), "all memory is a container's or unmanaged");
  return joined;
}

}  // namespace mgpu::plugin
