#include "plugin/cards/mps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

using Wish = MpsDaemon::Wish;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Where a container finds the pipe directory of its card.
constexpr char kPipeInContainer[] = "/run/mgpu/mps";

// Cards that had a daemon, of this process or one before it.
std::set<CardUuid> cards_with_folders(const std::string& run_dir) {
  std::set<CardUuid> cards;
  std::error_code failed;
  fs::directory_iterator at(run_dir + "/mps", failed);
  while (!failed && at != fs::directory_iterator()) {
    const std::string name = at->path().filename().string();
    if (is_card_uuid(name)) cards.insert(CardUuid(name));
    at.increment(failed);
  }
  return cards;
}

}  // namespace

Mps::Mps(MpsOptions options) : options_(std::move(options)) {}

Mps::~Mps() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Mps::set_cards(const std::vector<CardUuid>& cards) {
  const MutexLock lock(mutex_);
  wanted_.clear();
  for (const CardUuid& card : cards) {
    if (is_card_uuid(card.str())) wanted_.insert(card);
  }
  unwanted_ = Wish::kDrain;
  idle_ = false;
  news_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
}

Result<Edits> Mps::edits(const Record& record) const {
  Edits edits = mps_edits(options_, record);
  if (edits == Edits()) return edits;
  if (auto up = ready(record.cards.front().uuid); !up) return up.error();
  return edits;
}

Result<void> Mps::ready(const CardUuid& card) const {
  const auto named = [&](const std::string& why) {
    return error(fmt::format("MPS of card {} does not run: {}", in_quotes(card.str()), why));
  };
  MutexLock lock(mutex_);
  const auto found = seen_.find(card);
  if (found == seen_.end()) return named("it is not started yet");
  if (!found->second.running) return named(found->second.problem);
  lock.unlock();
  // It may have ended since it was looked at, and a program without its daemon runs unlimited.
  const auto answered = probe_mps(options_, mps_folders(options_.run_dir, card));
  return answered ? Result<void>() : named(answered.error().message);
}

std::vector<MpsState> Mps::states() const {
  const MutexLock lock(mutex_);
  std::vector<MpsState> states;
  for (const auto& [card, state] : seen_) states.push_back(state);
  return states;
}

void Mps::stop() {
  set_cards({});
  MutexLock lock(mutex_);
  unwanted_ = Wish::kStop;
  news_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&]() MGPU_REQUIRES(mutex_) { return idle_ || unwanted_ != Wish::kStop; });
}

void Mps::step_all() {
  MutexLock lock(mutex_);
  const std::set<CardUuid> now_wanted = wanted_;
  const Wish others = unwanted_;
  lock.unlock();
  for (const CardUuid& card : now_wanted) daemons_.try_emplace(card, options_, card);
  std::map<CardUuid, MpsState> now_seen;
  for (auto& [card, daemon] : daemons_) {
    const bool is_wanted = now_wanted.contains(card);
    daemon.step(steady_clock::now(), is_wanted ? Wish::kRun : others);
    if (is_wanted || !daemon.gone()) now_seen.emplace(card, daemon.state());
  }
  std::erase_if(daemons_, [&](const auto& entry) { return !now_seen.contains(entry.first); });
  lock.lock();
  seen_ = std::move(now_seen);
  idle_ = daemons_.empty() && wanted_.empty();
  changed_.notify_all();
}

milliseconds Mps::time_to_next_step() const {
  milliseconds next = options_.times.probe;
  for (const auto& [card, daemon] : daemons_) next = std::min(next, daemon.patience());
  return next;
}

void Mps::watch() {
  for (const CardUuid& card : cards_with_folders(options_.run_dir)) {
    daemons_.try_emplace(card, options_, card);
  }
  MutexLock lock(mutex_);
  while (!ending_) {
    news_ = false;
    lock.unlock();
    step_all();
    lock.lock();
    changed_.wait_for(lock, time_to_next_step(),
                      [&]() MGPU_REQUIRES(mutex_) { return news_ || ending_; });
  }
}

Edits mps_edits(const MpsOptions& options, const Record& record) {
  Edits edits;
  if (record.cards.size() != 1) return edits;
  const CardGrant& card = record.cards.front();
  edits.mounts = {{mps_folders(options.run_dir, card.uuid).pipe, kPipeInContainer, false}};
  edits.environment = {
      {"CUDA_MPS_PIPE_DIRECTORY", kPipeInContainer},
      {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", fmt::format("0={}M", card.share.memory.value())}};
  if (card.share.core < kWholeCard) {
    edits.environment.emplace("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                              std::to_string(card.share.core.value()));
  }
  return edits;
}

}  // namespace mgpu::plugin
