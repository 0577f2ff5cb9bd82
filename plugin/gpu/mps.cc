#include "plugin/gpu/mps.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "common/text.h"
#include "plugin/gpu/card_source.h"
#include "plugin/gpu/mps_daemon.h"

namespace mgpu::gpu {
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

// One thread moves all daemons on; what others may know of them is copied out under the lock.
struct Mps::State {
  explicit State(MpsOptions chosen) : options(std::move(chosen)) {}

  void watch();
  void step_all();
  milliseconds patience() const;

  const MpsOptions options;
  std::map<CardUuid, MpsDaemon> daemons;  // of the watching thread

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::set<CardUuid> wanted;
  std::map<CardUuid, MpsState> seen;
  Wish unwanted = Wish::kDrain;  // what becomes of the others
  bool news = false;
  bool idle = false;  // nothing runs, and nothing is wanted
  bool ending = false;
  std::thread thread;
};

void Mps::State::step_all() {
  std::unique_lock lock(mutex);
  const std::set<CardUuid> now_wanted = wanted;
  const Wish others = unwanted;
  lock.unlock();
  for (const CardUuid& card : now_wanted) daemons.try_emplace(card, options, card);
  std::map<CardUuid, MpsState> now_seen;
  for (auto& [card, daemon] : daemons) {
    const bool is_wanted = now_wanted.contains(card);
    daemon.step(steady_clock::now(), is_wanted ? Wish::kRun : others);
    if (is_wanted || !daemon.gone()) now_seen.emplace(card, daemon.state());
  }
  std::erase_if(daemons, [&](const auto& entry) { return !now_seen.contains(entry.first); });
  lock.lock();
  seen = std::move(now_seen);
  idle = daemons.empty() && wanted.empty();
  changed.notify_all();
}

milliseconds Mps::State::patience() const {
  milliseconds patience = options.times.look;
  for (const auto& [card, daemon] : daemons) patience = std::min(patience, daemon.patience());
  return patience;
}

void Mps::State::watch() {
  for (const CardUuid& card : cards_with_folders(options.run_dir)) {
    daemons.try_emplace(card, options, card);
  }
  std::unique_lock lock(mutex);
  while (!ending) {
    news = false;
    lock.unlock();
    step_all();
    lock.lock();
    changed.wait_for(lock, patience(), [&] { return news || ending; });
  }
}

Mps::Mps(MpsOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Mps::~Mps() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void Mps::follow(const std::vector<CardUuid>& cards) {
  const std::lock_guard lock(state_->mutex);
  state_->wanted.clear();
  for (const CardUuid& card : cards) {
    if (is_card_uuid(card.str())) state_->wanted.insert(card);
  }
  state_->unwanted = Wish::kDrain;
  state_->idle = false;
  state_->news = true;
  state_->changed.notify_all();
  if (!state_->thread.joinable()) state_->thread = std::thread([this] { state_->watch(); });
}

Result<void> Mps::ready(const CardUuid& card) const {
  const auto named = [&](const std::string& why) {
    return error(fmt::format("MPS of card {} does not run: {}", in_quotes(card.str()), why));
  };
  std::unique_lock lock(state_->mutex);
  const auto seen = state_->seen.find(card);
  if (seen == state_->seen.end()) return named("it is not started yet");
  if (!seen->second.running) return named(seen->second.problem);
  lock.unlock();
  // It may have ended since it was looked at, and a program without its daemon runs unlimited.
  const auto answered = probe_mps(state_->options, mps_folders(state_->options.run_dir, card));
  return answered ? Result<void>() : named(answered.error().message);
}

std::vector<MpsState> Mps::states() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<MpsState> states;
  for (const auto& [card, seen] : state_->seen) states.push_back(seen);
  return states;
}

void Mps::stop() {
  follow({});
  std::unique_lock lock(state_->mutex);
  state_->unwanted = Wish::kStop;
  state_->news = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->idle || state_->unwanted != Wish::kStop; });
}

allocation::Edits mps_edits(const MpsOptions& options, const allocation::Record& record) {
  allocation::Edits edits;
  if (record.cards.size() != 1) return edits;
  const allocation::CardGrant& card = record.cards.front();
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

}  // namespace mgpu::gpu
