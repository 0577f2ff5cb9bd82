#include "plugin/agent/client_ender.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "plugin/monitor/sampler.h"

namespace mgpu::plugin {

void ClientEnder::follow_deletions(Instant now) {
  std::map<PodUid, Deletion> deletions;
  for (const DeletedPod& pod : facts_.deleted_pods()) {
    const auto known = deletions_.find(pod.uid);
    // A second deletion may shorten the grace period, which begins anew then.
    const bool same = known != deletions_.end() && known->second.grace_seconds == pod.grace_seconds;
    deletions[pod.uid] = same ? known->second : Deletion{pod.grace_seconds, now};
  }
  std::erase_if(taken_,
                [&deletions](const auto& taken) { return !deletions.contains(taken.first); });
  deletions_ = std::move(deletions);
}

void ClientEnder::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
}

std::set<CardUuid> ClientEnder::due() {
  const MutexLock lock(mutex_);
  due_.clear();
  if (margin_ == Duration(0) || stopped_) return {};
  const Instant now = facts_.now();
  follow_deletions(now);
  std::set<PodUid> pods;
  for (const auto& [uid, deletion] : deletions_) {
    const Duration grace = std::chrono::seconds(deletion.grace_seconds);
    if (now + margin_ >= deletion.seen + grace) pods.insert(uid);
  }
  std::set<CardUuid> cards;
  if (pods.empty()) return cards;
  for (const Record& record : facts_.bound()) {
    if (!record.bound() || !is_part_of_one_card(record)) continue;
    if (!pods.contains(record.owner->uid)) continue;
    const CardUuid& card = record.cards.front().uuid;
    due_[card].insert(record.owner->uid);
    cards.insert(card);
  }
  return cards;
}

bool ClientEnder::take(const CardUuid& card, std::int64_t pid) {
  const MutexLock lock(mutex_);
  const auto pods = due_.find(card);
  if (stopped_ || pods == due_.end() || pid <= 1) return false;
  const auto use = facts_.use();
  const auto of_card = std::ranges::find(use, card, &CardUse::uuid);
  if (of_card == use.end()) return false;
  if (std::ranges::find(of_card->processes, pid, &ProcessUse::pid) == of_card->processes.end())
    return false;
  // It reads the start time of the process before and after its cgroup.
  ProcessSampler sampler(proc_folder_);
  const auto samples =
      sampler.sample({CardProcess{.card = card, .pid = pid, .memory = {}, .sm_percent = {}}});
  if (samples.size() != 1 || !samples.front().container) return false;
  const PodUid& uid = samples.front().container->uid;
  if (!pods->second.contains(uid) || !taken_.insert({uid, pid}).second) return false;
  log_info("a client of MPS is ended before its container is killed",
           {{"pod_uid", uid.str()}, {"card", card.str()}, {"pid", std::to_string(pid)}});
  return true;
}

}  // namespace mgpu::plugin
