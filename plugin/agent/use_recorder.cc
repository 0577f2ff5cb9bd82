#include "plugin/agent/use_recorder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/utc_text.h"
#include "plugin/monitor/use_metrics.h"
#include "plugin/monitor/waiting_shares.h"
#include "plugin/state/use_json.h"

namespace mgpu::plugin {

UseRecorder::UseRecorder(NodeName node, Contract contract, std::string file, Metrics& metrics,
                         const Pods& pods, std::function<UseMoment()> clock)
    : node_(std::move(node)),
      contract_(std::move(contract)),
      file_(std::move(file)),
      metrics_(metrics),
      pods_(pods),
      clock_(std::move(clock)),
      saved_at_(clock_().steady),
      account_(clock_()) {}

void UseRecorder::load() {
  std::error_code failure;
  if (!std::filesystem::exists(file_, failure)) return;
  const auto text = read_file(file_, kUseFileBytesMax, "account of use");
  auto saved = text ? parse_saved_use(*text) : Result<SavedUse>(text.error());
  if (!saved) {
    log_warn("the account of use cannot be read, and a new one begins",
             {{"file", file_}, {"problem", saved.error().message}});
    return;
  }
  const UseMoment now = clock_();
  const MutexLock lock(mutex_);
  account_ = UseAccount(std::move(*saved), now);
  log_info("the account of use continues", {{"since", utc_text(account_.since())}});
}

void UseRecorder::add(const std::vector<ContainerUse>& containers, const std::vector<CardUse>& use,
                      const std::vector<CardFacts>& cards, std::uint64_t reads) {
  ReadCards read;
  for (const CardUse& card : use) {
    // Otherwise a container without a process in the list may have one.
    if (!card.listed) continue;
    read[card.uuid] = !card.measured          ? KnownIdle::kNobody
                      : card.clients_measured ? KnownIdle::kWithoutValue
                                              : KnownIdle::kWithoutProcess;
  }
  // In this order: a list may arrive in between.
  ReportedPods reported{.listed = pods_.listed(), .pods = {}};
  const std::vector<kube::Pod> pods = pods_.all();
  for (const kube::Pod& pod : pods)
    reported.pods[pod.uid()] = {pod.finished(), kube::owner_of(pod)};
  auto held = held_shares(containers, read, reported);
  for (HeldShare& share : waiting_shares(pods, containers, held, cards, contract_)) {
    held.push_back(std::move(share));
  }
  const bool fresh = reads_ != reads;
  reads_ = reads;
  const UseMoment now = clock_();
  {
    const MutexLock lock(mutex_);
    account_.add(now, held, fresh);
    update_use_metrics(metrics_, account_.recent_shares(now, kEndedSeriesTime, kEndedSeriesMax));
  }
  if (now.steady - saved_at_ >= kUseSavePeriod) save();
}

void UseRecorder::save() {
  const UseMoment now = clock_();
  saved_at_ = now.steady;
  SavedUse saved;
  {
    const MutexLock lock(mutex_);
    saved = account_.saved(now);
  }
  const auto written = write_file(file_, saved_use_json(saved), Durability::kMachine);
  if (!written && !std::exchange(save_failed_, true)) {
    log_warn("the account of use cannot be written", {{"problem", written.error().message}});
  }
  if (written) save_failed_ = false;
}

std::string UseRecorder::json() const {
  const UseMoment now = clock_();
  const MutexLock lock(mutex_);
  return use_json(node_, account_, now.wall);
}

UseMoment use_moment_now() {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(steady),
          std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())};
}

}  // namespace mgpu::plugin
