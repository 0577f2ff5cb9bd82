#include "plugin/monitor/watchdog.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace mgpu::plugin {
namespace {

constexpr int kSamplesUntilOver = 2;
constexpr MiB kSlack{64};                // for buffers of the driver
constexpr std::int64_t kSlackPart = 50;  // 2 % of what is granted
// A container must not get more by starting many processes.
constexpr std::int32_t kContextsMax = 4;
constexpr std::int32_t kProcessesMax = 8;

MiB slack_of(const ContainerUse& use) {
  return std::max(kSlack, MiB(use.grant.share.memory.value() / kSlackPart));
}

}  // namespace

bool Watchdog::exceeds(const ContainerUse& use) const {
  const MiB contexts(context_.value() * std::min(use.processes, kContextsMax));
  const MiB excess = use.memory_used.minus_saturating(use.grant.share.memory);
  return excess.minus_saturating(contexts) > slack_of(use);
}

std::vector<Overuse> Watchdog::step(const std::vector<ContainerUse>& use) {
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> next;
  std::vector<Overuse> newly_over;
  for (const ContainerUse& container : use) {
    if (!exceeds(container)) continue;
    const auto key =
        std::tuple(container.owner.uid, container.owner.container, container.grant.uuid);
    const auto before = entries_.find(key);
    const int samples = before == entries_.end() ? 0 : before->second.samples;
    MGPU_CHECK(container.memory_used > container.grant.share.memory,
               "an excess is above the grant");
    const Overuse overuse{container.owner, container.grant, container.memory_used};
    // Stops above the number at which it is reported, so that it is reported once.
    next.insert_or_assign(key, Entry{std::min(samples + 1, kSamplesUntilOver + 1), overuse});
    if (samples + 1 == kSamplesUntilOver) newly_over.push_back(overuse);
  }
  entries_ = std::move(next);
  MGPU_CHECK(newly_over.size() <= entries_.size() && entries_.size() <= use.size(),
             "no more containers are over than there are");
  return newly_over;
}

std::vector<ContainerUse> BypassWatch::step(const std::vector<ContainerUse>& use) {
  std::map<std::tuple<PodUid, std::string, CardUuid>, int> next;
  std::vector<ContainerUse> found;
  for (const ContainerUse& container : use) {
    if (!container.part_of_one_card || container.without_mps == 0) continue;
    const auto key =
        std::tuple(container.owner.uid, container.owner.container, container.grant.uuid);
    const auto before = samples_.find(key);
    const int samples = before == samples_.end() ? 1 : before->second + 1;
    next[key] = std::min(samples, kSamplesUntilOver + 1);
    if (samples == kSamplesUntilOver) found.push_back(container);
  }
  samples_ = std::move(next);
  MGPU_CHECK(found.size() <= samples_.size(), "a bypass that is found is also remembered");
  return found;
}

std::vector<ContainerUse> UncountedWatch::step(std::vector<ContainerUse>& use, bool fresh) {
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> next;
  std::vector<ContainerUse> found;
  for (ContainerUse& container : use) {
    if (!container.reserved) continue;
    const auto key =
        std::tuple(container.owner.uid, container.owner.container, container.grant.uuid);
    const auto before = entries_.find(key);
    Entry entry = before == entries_.end() ? Entry() : before->second;
    const MiB excess = container.memory_used.minus_saturating(*container.reserved);
    if (fresh) entry.excess = {excess, entry.excess[0], entry.excess[1]};
    container.uncounted = std::ranges::min(entry.excess);
    const MiB of_processes(kSlack.value() * std::clamp(container.processes, 1, kProcessesMax));
    const bool reported = container.uncounted > std::max(slack_of(container), of_processes);
    if (reported && !std::exchange(entry.reported, reported)) found.push_back(container);
    entry.reported = reported;
    next.insert_or_assign(key, entry);
  }
  entries_ = std::move(next);
  return found;
}

std::vector<Overuse> Watchdog::over() const {
  std::vector<Overuse> all;
  for (const auto& [key, entry] : entries_) {
    MGPU_CHECK(entry.samples > 0, "an entry was seen at least once");
    if (entry.samples >= kSamplesUntilOver) all.push_back(entry.overuse);
  }
  return all;
}

}  // namespace mgpu::plugin
