#include "plugin/cards/mps/mps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/text.h"

namespace mgpu::plugin {
namespace {

using Target = MpsDaemon::Target;
using std::chrono::steady_clock;

// Volta (docs.nvidia.com/deploy/mps, "Volta MPS").
constexpr ComputeCapability kMpsLimitsFrom{7, 0};

}  // namespace

Mps::Mps(MpsOptions options) : options_(std::move(options)) {
  if (options_.terminator == nullptr) return;
  const auto command = [this](const CardUuid& card, const std::string& text,
                              std::chrono::milliseconds timeout) {
    return mps_command(options_.control, mps_folders(options_.run_dir, card), text, timeout);
  };
  clients_.emplace(*options_.terminator,
                   MpsClients::Dependencies{.running = [this] { return running(); },
                                            .command = command,
                                            .now = [] { return steady_clock::now(); }},
                   options_.times.command);
}

Mps::~Mps() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (clients_thread_.joinable()) clients_thread_.join();
}

void Mps::set_cards(const std::vector<CardUuid>& cards) {
  const MutexLock lock(mutex_);
  cards_.clear();
  for (const CardUuid& card : cards) {
    if (is_card_uuid(card.str())) cards_.insert(card);
  }
  target_of_others_ = Target::kDrained;
  idle_ = false;
  step_due_ = true;
  changed_.notify_all();
  if (thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
  if (clients_) clients_thread_ = std::thread([this] { run_clients(); });
}

Edits Mps::edits(const Record& record) const {
  return is_part_of_one_card(record) ? mps_edits(options_, record) : Edits();
}

Result<void> Mps::ready(const CardUuid& card) const {
  const auto not_running = [&](const std::string& why) {
    return error(fmt::format("MPS of card {} does not run: {}", in_quotes(card.str()), why));
  };
  MutexLock lock(mutex_);
  const auto found = states_.find(card);
  if (found == states_.end()) return not_running("it is not started yet");
  if (!found->second.running) return not_running(found->second.problem);
  lock.unlock();
  // It may have ended since the last step, and a program without its daemon runs unlimited.
  const auto load = ask_mps(options_, mps_folders(options_.run_dir, card));
  if (!load) return not_running(load.error().message);
  return load->active ? Result<void>() : not_running("its server does not run");
}

Result<void> Mps::prepare(const Record& record) const {
  MGPU_DEBUG_CHECK(is_part_of_one_card(record), "MPS limits parts of one card");
  if (auto runs = ready(record.cards.front().uuid); !runs) return runs;
  const MutexLock lock(shares_);
  return make_mps_share(options_, record);
}

void Mps::keep_shares(const std::function<std::vector<Record>()>& records) const {
  const MutexLock lock(shares_);
  const auto end = steady_clock::now() + options_.times.command;
  for (const CardUuid& card : running()) keep_mps_shares(options_, card, records, end);
}

std::vector<MpsState> Mps::states() const {
  const MutexLock lock(mutex_);
  std::vector<MpsState> states;
  for (const auto& [card, state] : states_) states.push_back(state);
  return states;
}

std::string Mps::problem_of(const FoundCard& card) const {
  if (card.compute_capability && *card.compute_capability < kMpsLimitsFrom) {
    return fmt::format(
        "MPS cannot limit programs on this card: it has compute capability {}.{}, and needs {}.{}",
        card.compute_capability->major, card.compute_capability->minor, kMpsLimitsFrom.major,
        kMpsLimitsFrom.minor);
  }
  const MutexLock lock(mutex_);
  const auto found = states_.find(card.uuid);
  if (found == states_.end() || !found->second.down_since) return {};
  if (steady_clock::now() - *found->second.down_since < options_.times.down_max) return {};
  const std::string& why = found->second.server_problem;
  if (!why.empty()) return "MPS does not run for this card: " + why;
  // Not the problem itself, which may be another one after each attempt to start it.
  return "MPS does not run for this card, see the log of mgpu-device-plugin";
}

void Mps::stop() {
  set_cards({});
  MutexLock lock(mutex_);
  target_of_others_ = Target::kStopped;
  step_due_ = true;
  changed_.notify_all();
  changed_.wait(
      lock, [&]() MGPU_REQUIRES(mutex_) { return idle_ || target_of_others_ != Target::kStopped; });
}

void Mps::run() {
  // Daemons that an earlier process started.
  for (const std::string& name : names_in(options_.run_dir + "/mps")) {
    const CardUuid card(name);
    if (is_card_uuid(name)) daemons_.try_emplace(card, options_, card);
  }
  MutexLock lock(mutex_);
  while (!ending_) {
    step_due_ = false;
    const std::set<CardUuid> cards = cards_;
    const Target target_of_others = target_of_others_;
    lock.unlock();
    for (const CardUuid& card : cards) daemons_.try_emplace(card, options_, card);
    std::map<CardUuid, MpsState> states;
    auto time_to_next_step = options_.times.probe;
    for (auto& [card, daemon] : daemons_) {
      const bool is_set = cards.contains(card);
      daemon.step(steady_clock::now(), is_set ? Target::kRunning : target_of_others);
      if (!is_set && daemon.stopped()) continue;
      states.emplace(card, daemon.state());
      time_to_next_step = std::min(time_to_next_step, daemon.time_to_next_step());
    }
    std::erase_if(daemons_, [&](const auto& entry) { return !states.contains(entry.first); });
    MGPU_DEBUG_CHECK(states.size() == daemons_.size(), "each daemon has a state");
    lock.lock();
    states_ = std::move(states);
    idle_ = daemons_.empty() && cards_.empty();
    changed_.notify_all();
    changed_.wait_for(lock, time_to_next_step,
                      [&]() MGPU_REQUIRES(mutex_) { return step_due_ || ending_; });
  }
}

void Mps::run_clients() {
  MutexLock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    const auto time_to_next_step = clients_->step(options_.times.tick);
    lock.lock();
    changed_.wait_for(lock, time_to_next_step, [&]() MGPU_REQUIRES(mutex_) { return ending_; });
  }
}

std::set<CardUuid> Mps::running() const {
  const MutexLock lock(mutex_);
  std::set<CardUuid> running;
  for (const auto& [card, state] : states_) {
    if (state.running && !ending_) running.insert(card);
  }
  return running;
}

}  // namespace mgpu::plugin
