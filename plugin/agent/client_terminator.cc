#include "plugin/agent/client_terminator.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "plugin/monitor/sampler.h"

namespace mgpu::plugin {

void ClientTerminator::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
}

std::set<PodUid> ClientTerminator::due_pods(Due& due) const {
  std::set<PodUid> pods;
  const Instant now = dependencies_.now();
  for (const DeletedPod& pod : dependencies_.deleted_pods()) {
    const Duration grace = std::chrono::seconds(pod.grace_seconds);
    const Duration left = pod.ends - std::min(margin_, grace / 2) - now;
    if (left > Duration(0)) {
      due.next = std::min(left, due.next.value_or(left));
    } else {
      pods.insert(pod.uid);
    }
  }
  return pods;
}

MpsClientTerminator::Due ClientTerminator::due() {
  const MutexLock lock(mutex_);
  const auto before = std::exchange(due_, {});
  Due due;
  if (margin_ == Duration(0) || stopped_) return due;
  const std::set<PodUid> pods = due_pods(due);
  MGPU_DEBUG_CHECK(!due.next || *due.next > Duration(0), "the next pods are not due yet");
  if (pods.empty()) return due;
  for (const Record& record : dependencies_.bound()) {
    if (!record.bound() || !is_part_of_one_card(record)) continue;
    if (!pods.contains(record.owner->uid)) continue;
    const CardUuid& card = record.cards.front().uuid;
    due_[card].insert(record.owner->uid);
    due.cards.insert(card);
  }
  MGPU_DEBUG_CHECK(
      std::ranges::equal(due_, due.cards, {}, [](const auto& card) { return card.first; }),
      "each card that is due has pods that are");
  // Processes that have started since the last read are not known yet.
  const bool is_new = std::ranges::any_of(due_, [&before](const auto& card) {
    const auto old = before.find(card.first);
    return old == before.end() || !std::ranges::includes(old->second, card.second);
  });
  if (is_new) dependencies_.read_soon();
  return due;
}

std::optional<PodUid> ClientTerminator::pod_of(const CardUuid& card, std::int64_t pid) {
  const MutexLock lock(mutex_);
  const auto pods = due_.find(card);
  if (stopped_ || pods == due_.end() || pid <= 1) return std::nullopt;
  const auto use = dependencies_.use();
  const auto of_card = std::ranges::find(use, card, &CardUse::uuid);
  if (of_card == use.end()) return std::nullopt;
  if (std::ranges::find(of_card->processes, pid, &ProcessUse::pid) == of_card->processes.end())
    return std::nullopt;
  // It reads the start time of the process before and after its cgroup.
  ProcessSampler sampler(proc_folder_);
  const auto samples =
      sampler.sample({CardProcess{.card = card, .pid = pid, .memory = {}, .sm_percent = {}}});
  if (samples.size() != 1 || !samples.front().container) return std::nullopt;
  const PodUid& uid = samples.front().container->uid;
  return pods->second.contains(uid) ? std::optional(uid) : std::nullopt;
}

}  // namespace mgpu::plugin
