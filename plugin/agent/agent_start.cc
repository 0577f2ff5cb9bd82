// The agent's thread: start-up, one step after another, and maintenance.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "plugin/agent/agent.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/limits.h"
#include "plugin/containers/rebuild.h"
#include "plugin/containers/turn_control.h"
#include "plugin/kubelet/runtime.h"

namespace mgpu::plugin {

namespace {

constexpr std::chrono::milliseconds kRuntimeTimeout{5'000};
constexpr std::chrono::milliseconds kRuntimeRetry{500};
// Interval between checks of the state of this process. Pods with cards do not start until then.
constexpr std::chrono::milliseconds kStartPoll{20};

// 40 random bits.
std::string random_nonce() {
  constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr int kLength = 8;
  std::random_device device;
  std::string nonce;
  for (int i = 0; i < kLength; ++i) nonce += kDigits[device() % kDigits.size()];
  return nonce;
}

void rebuild_record(const CheckpointEntry& entry, const std::optional<kube::Pod>& pod,
                    const std::vector<CardFacts>& cards, const Contract& contract,
                    Records& records) {
  const auto rebuilt = rebuild(entry, pod, cards, contract);
  if (!rebuilt) return;
  if (!rebuilt->problem.empty()) {
    log_error("the cards of a started container are unknown", {{"problem", rebuilt->problem}});
  }
  auto kept = records.keep(rebuilt->record);
  if (kept) kept = records.save(rebuilt->record, Durability::kMachine);
  if (!kept) log_warn("allocation record not saved", {{"problem", kept.error().message}});
}

// --- steps of the start that wait: false if the agent is being destroyed -------------------------

// No device is offered before it is known whether the runtime has CDI.
bool wait_for_runtime(const AgentOptions& options, AccessCheck& access, Progress& progress) {
  std::string logged;
  while (true) {
    const auto runtime = query_runtime(options.runtime_socket, options.cdi_folder, kRuntimeTimeout);
    if (runtime) {
      log_info("container runtime found",
               {{"name", runtime->name}, {"version", runtime->version}, {"reason", runtime->why}});
      access.set_cdi_problem(runtime->cdi ? "" : runtime->why);
      return true;
    }
    if (std::exchange(logged, runtime.error().message) != logged) {
      log_warn("waiting for the container runtime; --runtime-socket is its path",
               {{"problem", logged}});
    }
    if (!progress.wait(kRuntimeRetry)) return false;
  }
}

bool wait_for_profile(ProfileControl& profile, const NodeName& node, Progress& progress) {
  while (!profile.choose_first()) {
    progress.set_waiting_for("the labels of node " + node.str() + ", which choose its profile");
    if (!progress.wait(kStartPoll)) return false;
  }
  return true;
}

bool wait_for_cards(const Inventory& inventory, Progress& progress) {
  progress.set_waiting_for("the cards");
  while (true) {
    const InventoryState state = inventory.state();
    if (state.read) return true;
    if (!state.problem.empty()) progress.set_waiting_for("the cards: " + state.problem);
    if (!progress.wait(kStartPoll)) return false;
  }
}

// With --isolation=auto the first read offered cards whose memory the driver may not limit, and
// the library is tested on cards before they are offered.
bool wait_for_limitable_cards(Isolation& isolation, Inventory& inventory, Progress& progress) {
  const IsolationMode mode = isolation.mode();
  if (mode != IsolationMode::kAuto && mode != IsolationMode::kIntercept) return true;
  const SelfTests& tests = isolation.library().self_tests();
  do {
    while (tests.running()) {
      progress.set_waiting_for("the self test of the library");
      if (!progress.wait(kStartPoll)) return false;
    }
    // The next read may have begun before the choice or the result.
    const std::uint64_t enough = inventory.reads() + 2;
    while (inventory.reads() < enough) {
      inventory.read_soon();
      if (!progress.wait(kStartPoll)) return false;
    }
  } while (tests.running());
  return true;
}

bool rebuild_lost_records(const AgentOptions& options, const Inventory& inventory, Pods& pods,
                          Records& records, Progress& progress) {
  const auto checkpoint = read_checkpoint(options.plugin_folder, options.contract.core_resource);
  if (!checkpoint) {
    log_info("allocation records not compared with kubelet's checkpoint",
             {{"reason", checkpoint.error().message}});
    return true;
  }
  const auto lost = lost_entries(*checkpoint, records.all());
  if (lost.empty()) return true;
  log_warn("rebuilding allocation records from kubelet's checkpoint",
           {{"allocations", std::to_string(lost.size())}});
  progress.set_waiting_for("the pods of this node");
  while (!pods.listed()) {
    if (!progress.wait(kStartPoll)) return false;
  }
  for (const CheckpointEntry& entry : lost) {
    rebuild_record(entry, pods.find(entry.uid), inventory.state().cards, options.contract, records);
  }
  return true;
}

}  // namespace

Result<void> Agent::begin() {
  const auto problems = records_.load();
  if (!problems) return error("--state-dir: " + problems.error().message);
  for (const std::string& problem : *problems) {
    log_error("allocation record unreadable, rebuilding it from kubelet's checkpoint",
              {{"problem", problem}});
  }
  auto service = ServiceServer::start(options_.service, router_, transport_,
                                      server_events(metrics_, "mgpu_plugin", "metrics"));
  if (!service) return service.error();
  service_ = std::move(*service);
  pods_.start();
  thread_ = std::thread([this] { run(); });
  return {};
}

void Agent::run() {
  if (!wait_for_runtime(options_, access_, progress_)) return;
  if (!wait_for_profile(profile_, options_.node, progress_)) return;
  profile_.set_first_isolation();
  isolation_.prepare();
  inventory_.start();
  if (!wait_for_cards(inventory_, progress_)) return;
  isolation_.choose();
  if (!wait_for_limitable_cards(isolation_, inventory_, progress_)) return;
  settle_cards();
  make_handlers();
  if (!rebuild_lost_records(options_, inventory_, pods_, records_, progress_)) return;
  replace_other_process();
  restore_injections();
  pre_start_handler_->open();
  if (!register_with_kubelet()) return;
  log_info("serving", {{"isolation", std::string(to_string(isolation_.chosen()))},
                       {"allocations", std::to_string(records_.all().size())}});
  maintain();
}

// --- start-up ------------------------------------------------------------------------------------

void Agent::make_handlers() {
  allocate_handler_ = std::make_unique<AllocateHandler>(records_, *injector_, random_nonce);
  pre_start_handler_ = std::make_unique<PreStartHandler>(
      PreStartOptions{options_.contract, options_.node, options_.plugin_folder, options_.settle},
      PreStartDependencies{records_, *injector_, inventory_,
                           [this] {
                             ShareLimits limits = isolation_.limits();
                             limits.before_start = [this](const Record& record) {
                               const std::string problem = access_.cdi_problem();
                               return problem.empty() ? isolation_.before_start(record)
                                                      : error(problem);
                             };
                             return limits;
                           },
                           pods_, pod_resources_, pod_processes_},
      [this](const Refusal& refusal) { findings_.report_refusal(refusal); });
  collector_ = std::make_unique<RecordCollector>(
      RecordCollector::Dependencies{records_, *injector_, pods_, pod_resources_, pod_processes_,
                                    [this](const AllocationId& id) { isolation_.on_removed(id); }},
      options_.contract.core_resource, options_.plugin_folder);
}

// From here on another process, which may serve kubelet until this one is registered, writes
// nothing but the records of Allocate.
void Agent::replace_other_process() {
  if (auto replaced = incumbent_.become(); !replaced) {
    log_warn("a second device plugin on this node would not be noticed",
             {{"problem", replaced.error().message}});
  }
  // What it has bound since this process read the records.
  static_cast<void>(records_.load());
  // Earlier versions kept an account of use, and the process that was replaced may have written it.
  const std::string account = options_.state_folder + "/use.json";
  remove_unfinished(account);
  std::error_code ignored;
  std::filesystem::remove(account, ignored);
}

// The runtime may be about to create a container that an earlier process has started. Not from the
// folders of device nodes of an earlier version, which nothing keeps up to date.
void Agent::restore_injections() {
  std::error_code ignored;
  std::filesystem::remove_all(options_.run_folder + "/allocations", ignored);
  injector_->set_shared(shared_edits(inventory_.state().found));
  isolation_.library().pages().keep_only(records_.all());
  for (const Record& record : records_.bound()) {
    auto edits = edits_of(record, inventory_, isolation_.limits());
    if (edits) injector_->restore(record.id, *edits);
  }
}

bool Agent::register_with_kubelet() {
  const auto started = devices_.start(
      inventory_.state().cards,
      {.allocate =
           [this](const auto& ids) {
             const auto start = std::chrono::steady_clock::now();
             auto response = allocate_handler_->allocate(ids);
             agent_metrics_.allocated(std::chrono::steady_clock::now() - start);
             return response;
           },
       .pre_start = [this](const auto& ids,
                           const auto& cancelled) { return pre_start(ids, cancelled); },
       .may_register = [this] { return not_replaced(); },
       .on_registration = [this](const Result<void>&) { progress_.wake(); }});
  if (!started) {
    fail(started.error().message);
    return false;
  }
  progress_.set_started();
  devices_.offer(inventory_.state().cards);  // the cards may have changed meanwhile
  return true;
}

// --- maintenance ---------------------------------------------------------------------------------

void Agent::maintain() {
  Monitoring monitoring(
      {metrics_, inventory_, pods_, records_, isolation_.library().pages(), reserved_},
      {options_.node, options_.proc_folder, options_.context,
       isolation_.mps().daemons() != nullptr});
  std::optional<TurnRule> rule;
  std::optional<TurnControl> turns;
  auto collected = std::chrono::steady_clock::now();
  auto next_access_check = collected;
  while (!incumbent_.replaced()) {
    const auto cards = inventory_.state().cards;
    // Pods on unhealthy cards may have ended.
    if (!std::ranges::all_of(cards, &CardFacts::healthy)) devices_.offer(cards);
    if (profile_.switch_isolation(*pre_start_handler_)) inventory_.read_soon();
    if (std::exchange(rule, isolation_.library().files().compute) != rule) {
      turns.reset();
      if (rule) turns.emplace(isolation_.library().pages(), records_, *rule);
    }
    // The label is read after the cards, which are not healthy during a release.
    const auto found_cards = inventory_.state().found.cards;
    isolation_.library().self_tests().keep_only(found_cards);
    isolation_.mps().follow_modes(found_cards, publisher_.release_requested());
    isolation_.mps().keep_shares();
    publish_node();
    watch_containers(monitoring);
    const auto now = std::chrono::steady_clock::now();
    if (now - collected >= kRecordCollectPeriod) {
      collected = now;
      collector_->collect();
    }
    // Its questions may wait, and the rest is more urgent.
    if (now >= next_access_check) {
      next_access_check = now + access_.run();
      publish_node();
    }
    if (!progress_.wait_for_change(kMonitorPeriod)) break;
  }
  turns.reset();  // the other process keeps them
  if (incumbent_.replaced()) return leave_node_to_successor();
}

void Agent::watch_containers(Monitoring& monitoring) {
  const auto start = std::chrono::steady_clock::now();
  monitoring.set_mps(isolation_.mps().daemons() != nullptr);
  Monitoring::Found found = monitoring.sample(std::chrono::floor<Duration>(start));
  for (const Overuse& overuse : found.over) findings_.report_overuse(overuse);
  for (const ContainerUse& use : found.without_mps) findings_.report_bypass(use);
  for (const ContainerUse& use : found.uncounted) {
    findings_.report_uncounted(use, inventory_.description());
  }
  findings_.report_blocked_daemons(isolation_.mps().states());
  findings_.evict(monitoring.over());
  agent_metrics_.sampled(std::chrono::steady_clock::now() - start);
  drifts_.step(std::move(found.processes));
}

// kubelet may still call Allocate. If the successor ends first, this process starts anew, since
// what it knows is old.
void Agent::leave_node_to_successor() {
  publisher_.withdraw();
  log_warn("another process of mgpu-device-plugin has replaced this one on this node",
           {{"advice", "remove one of the two, unless this is an upgrade"}});
  while (progress_.wait(kMonitorPeriod)) {
    if (!incumbent_.successor_ended()) continue;
    return fail("the process that had replaced this one has ended");
  }
}

}  // namespace mgpu::plugin
