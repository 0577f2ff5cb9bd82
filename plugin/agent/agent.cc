// The agent's construction and its callbacks. agent_start.cc has its thread.
#include "plugin/agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/utc_text.h"
#include "common/program/service_routes.h"
#include "plugin/agent/known_cards.h"
#include "plugin/agent/report.h"
#include "plugin/allocation/offer.h"
#include "plugin/cards/release_marker.h"
#include "plugin/state/record_json.h"

namespace mgpu::plugin {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kReplaced =
    "another process of mgpu-device-plugin has replaced this one on this node";

IsolationSettings isolation_of(const AgentSettings& settings, ClientTerminator& terminator) {
  IsolationSettings isolation;
  isolation.mode = settings.isolation;
  isolation.mps.control = settings.mps_control;
  isolation.mps.run_dir = settings.run_folder;
  isolation.mps.watch_only = settings.mps_service;
  isolation.mps.terminator = &terminator;
  isolation.mps_exclusive = settings.mps_exclusive;
  isolation.mps_parts_without_limits = settings.mps_parts_without_limits;
  isolation.nvml = settings.nvml_calls;
  isolation.hook_path = settings.hook_path;
  isolation.hook_folder = settings.state_folder;
  isolation.run_folder = settings.run_folder;
  isolation.proc_folder = settings.proc_folder;
  return isolation;
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::start(AgentSettings settings,
                                            std::unique_ptr<CardSource> cards,
                                            kube::Transport& transport,
                                            std::function<void(const std::string&)> on_fatal) {
  std::unique_ptr<Agent> agent(
      new Agent(std::move(settings), std::move(cards), transport, std::move(on_fatal)));
  if (auto begun = agent->begin(); !begun) return begun.error();
  return agent;
}

Agent::Agent(AgentSettings settings, std::unique_ptr<CardSource> cards, kube::Transport& transport,
             std::function<void(const std::string&)> on_fatal)
    : settings_(std::move(settings)),
      transport_(transport),
      on_fatal_(std::move(on_fatal)),
      records_(settings_.state_folder + "/allocations"),
      incumbent_(settings_.run_folder + "/serving"),
      events_({.component = "mgpu-device-plugin", .host = settings_.node.str()}, transport,
              utc_now),
      publisher_(settings_.node, settings_.contract, transport,
                 [](const std::string& problem) {
                   log_warn("publishing to the Node object failed", {{"problem", problem}});
                 }),
      pods_(settings_.node, transport),
      terminator_({.deleted_pods = [this] { return pods_.deleted(); },
                   .bound = [this] { return records_.bound(); },
                   .use = [this] { return inventory_.use(); },
                   .read_soon = [this] { inventory_.read_soon(); },
                   .now = [this] { return transport_.executor().now(); }},
                  settings_.proc_folder, settings_.mps_end_clients),
      isolation_(isolation_of(settings_, terminator_), records_,
                 [this] { return inventory_.state().cards; }),
      profiles_(settings_.profiles, settings_.contract.profile,
                settings_.state_folder + "/profile"),
      pod_resources_(settings_.pod_resources_socket),
      pod_processes_(settings_.proc_folder),
      inventory_(std::move(cards),
                 {.load_known = [this] { return load_known_cards(); },
                  .save_known = [this](const KnownCards& known) { return save_known_cards(known); },
                  .on_change = [this](const InventoryState& before,
                                      const InventoryState& now) { on_cards_changed(before, now); },
                  .now = utc_now,
                  .apply_profile = profile_hook(),
                  .held = [this](const CardUuid& card) { return held(card); },
                  .problem_of =
                      [this](const FoundCard& card) {
                        const std::string problem = cdi_problem();
                        return problem.empty() ? isolation_.problem_of(card) : problem;
                      },
                  .released = [this] { return released(); },
                  .on_restart_needed = [this](const std::string& why) { fail(why); }}),
      drifts_({records_, pods_, inventory_, pod_resources_, pod_processes_, events_},
              {.node = settings_.node,
               .contract = settings_.contract,
               .plugin_folder = settings_.plugin_folder,
               .proc_folder = settings_.proc_folder,
               .unused_after = settings_.unused_after,
               .kubelet_period = settings_.drift_kubelet_period}) {
  metrics_.on_collect([this] { update_metrics(); });
  add_service_routes(router_, metrics_, work_, [this] { return readiness(); });
  router_.add("GET", "/allocations", [this](const http::Request&, const http::Respond& respond) {
    respond({.body = records_json(records_.all())});
  });
  router_.add("GET", "/drift", [this](const http::Request&, const http::Respond& respond) {
    respond({.body = drifts_.json()});
  });
}

Agent::~Agent() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // First, so that no container may start whose hook would not be answered.
  if (pre_start_handler_) pre_start_handler_->close();
  // The plugins are destroyed without the lock, since they wait for calls that take it.
  std::unique_ptr<DevicePlugin> core;
  std::unique_ptr<DevicePlugin> memory;
  {
    const MutexLock lock(mutex_);
    core = std::move(core_plugin_);
    memory = std::move(memory_plugin_);
  }
  const bool leaves = incumbent_.replaced() && !incumbent_.successor_ended();
  for (auto* plugin : {&core, &memory}) {
    if (leaves && *plugin) (*plugin)->leave_to_successor();
    plugin->reset();
  }
  terminator_.stop();
  isolation_.stop();
  inventory_.stop();
  service_.reset();
}

// --- cards ---------------------------------------------------------------------------------------

std::optional<KnownCards> Agent::load_known_cards() {
  auto known = load_card_indices(indices_file());
  if (known) return *std::move(known);
  log_info("reading the indices of the cards from the Node object",
           {{"reason", known.error().message}});
  known = fetch_card_indices(transport_, settings_.node, settings_.contract);
  if (known) return *std::move(known);
  log_warn("the indices of the cards are unknown, retrying", {{"problem", known.error().message}});
  return std::nullopt;
}

bool Agent::save_known_cards(const KnownCards& known) {
  const auto saved = save_card_indices(indices_file(), known);
  if (!saved) log_error("indices of the cards not saved", {{"problem", saved.error().message}});
  return saved.has_value();
}

void Agent::on_cards_changed(const InventoryState& before, const InventoryState& now) {
  log_info("cards changed", {{"cards", std::to_string(now.cards.size())},
                             {"healthy", std::to_string(healthy_cards(now.cards))},
                             {"problem", now.problem}});
  // Not those of now.cards, which are unhealthy while their MPS daemon does not run.
  std::vector<CardUuid> healthy;
  for (const FoundCard& card : now.found.cards) {
    const auto offered = std::ranges::find(now.cards, card.uuid, &CardFacts::uuid);
    const bool reserved = offered != now.cards.end() && offered->reserved();
    if (card.health != kHealthy || (reserved && held(card.uuid).zero())) continue;
    healthy.push_back(card.uuid);
  }
  isolation_.set_cards(healthy);
  injector_->set_shared(shared_edits(now.found));
  offer_devices(now.cards);
  publish_node();
  record_unhealthy_cards(before, now);
  changed_.notify_all();
}

std::string Agent::released() {
  // Before the labels of the node are known, the marker of an earlier process stays as it is.
  if (publisher_.labels()) {
    const auto marked = mark_release(settings_.run_folder, publisher_.release_requested());
    const std::string problem = marked ? "" : marked.error().message;
    if (problem != std::exchange(logged_marker_problem_, problem) && !problem.empty()) {
      log_error("mgpu-mps does not see the release of the driver", {{"problem", problem}});
    }
  }
  if (!publisher_.labels() && is_release_marked(settings_.run_folder)) {
    return "the driver was released before this process started, and the labels of the node have "
           "not been read yet";
  }
  if (!publisher_.release_requested()) return {};
  return "the node has the label " + settings_.contract.release + "=true";
}

void Agent::fail(const std::string& problem) {
  if (!failed_.exchange(true)) on_fatal_(problem);
}

// Pods that are bound and have not started yet count with their compute, which their devices are
// taken from.
Share Agent::held(const CardUuid& card) const {
  Share held;
  for (const Record& record : records_.bound()) {
    const auto grant = std::ranges::find(record.cards, card, &CardGrant::uuid);
    if (grant != record.cards.end()) held += grant->share;
  }
  const auto cards = inventory_.state().cards;
  const auto at = std::ranges::find(cards, card, &CardFacts::uuid);
  if (at != cards.end() && pods_.listed())
    held.core = std::max(held.core, core_held(at->index, pods_.all(), settings_.contract));
  return held;
}

// Records an Event on the node and on each pod that holds the card.
void Agent::record_unhealthy_cards(const InventoryState& before, const InventoryState& now) {
  for (const CardFacts& card : now.cards) {
    const auto was = std::ranges::find(before.cards, card.uuid, &CardFacts::uuid);
    if (card.healthy() || card.reserved() || (was != before.cards.end() && !was->healthy()))
      continue;
    const std::string message = fmt::format("card {} ({}) is not healthy: {}", card.index.value(),
                                            card.uuid.str(), card.health);
    events_.on_node({Event::Type::kWarning, "MGPUCardUnhealthy", message});
    for (const Record& record : records_.bound()) {
      const auto on = std::ranges::find(record.cards, card.uuid, &CardGrant::uuid);
      if (on == record.cards.end()) continue;
      events_.on_pod(record.owner->pod, record.owner->uid,
                     {Event::Type::kWarning, "MGPUCardUnhealthy",
                      fmt::format("container {}: {}; delete the pod so that it is scheduled on a "
                                  "healthy card",
                                  record.owner->container, message)});
    }
  }
}

Share Agent::held_on_unhealthy_cards(const std::vector<CardFacts>& cards) const {
  if (std::ranges::all_of(cards, &CardFacts::healthy)) return {};
  return pods_.listed() ? held_on_unhealthy(cards, pods_.all(), settings_.contract)
                        : held_on_unhealthy(cards, records_.bound());
}

void Agent::offer_devices(const std::vector<CardFacts>& cards) {
  const Share held = held_on_unhealthy_cards(cards);
  const MutexLock lock(mutex_);
  if (core_plugin_) {
    core_plugin_->set_devices(offered_core_ids(cards, records_.all(), held));
  }
  if (!memory_plugin_) return;
  if (auto fits = check_memory_list(offered(cards, held).memory.value()); !fits) {
    log_error("devices of mgpu-memory not updated", {{"problem", fits.error().message}});
  } else {
    memory_plugin_->set_devices(offered_memory_ids(cards, held));
  }
}

// --- kubelet -------------------------------------------------------------------------------------

bool Agent::registered() const {
  const MutexLock lock(mutex_);
  if (!core_plugin_ || !core_plugin_->registered()) return false;
  return !memory_plugin_ || memory_plugin_->registered();
}

void Agent::on_registration(const std::string& resource, const Result<void>& outcome) {
  if (outcome) {
    log_info("device plugin registered", {{"resource", resource}});
  } else {
    log_warn("device plugin not registered, retrying",
             {{"resource", resource}, {"problem", outcome.error().message}});
  }
  changed_.notify_all();
}

Result<AllocateResponse> Agent::allocate(const std::vector<std::string>& ids) {
  const auto start = Clock::now();
  auto response = allocate_handler_->allocate(ids);
  agent_metrics_.allocated(Clock::now() - start);
  return response;
}

Result<void> Agent::not_replaced() const {
  return incumbent_.replaced() ? error(std::string(kReplaced)) : Result<void>();
}

Result<void> Agent::pre_start(const std::vector<std::string>& ids,
                              const std::function<bool()>& cancelled) {
  const auto start = Clock::now();
  if (auto serves = not_replaced(); !serves) return serves;
  const auto useless = [&] { return cancelled() || incumbent_.replaced(); };
  const auto started = pre_start_handler_->start(ids, useless);
  if (started) {
    agent_metrics_.started(Clock::now() - start);
    return {};
  }
  agent_metrics_.refused(started.error().reason, Clock::now() - start);
  return error(started.error().message);
}

Result<void> Agent::before_start(const Record& record) {
  if (const std::string problem = cdi_problem(); !problem.empty()) return error(problem);
  return isolation_.before_start(record);
}

void Agent::on_refused(const Refusal& refusal) {
  log_warn("container may not start", {{"reason", std::string(label(refusal.reason))},
                                       {"pod", to_string(refusal.pod)},
                                       {"problem", refusal.message}});
  if (refusal.pod.name.empty()) return;
  events_.on_pod(
      refusal.pod, refusal.uid,
      {Event::Type::kWarning, std::string(event_reason(refusal.reason)), refusal.message});
}

// --- status --------------------------------------------------------------------------------------

void Agent::publish_node() {
  if (incumbent_.replaced()) return;
  const InventoryState inventory = inventory_.state();
  std::optional<NodeUse> use;
  if (pods_.listed()) use = use_of(pods_.all(), settings_.contract);
  NodeReport report = report_of(inventory, held_on_unhealthy_cards(inventory.cards), registered(),
                                kubelet_publishes_memory(), settings_.taint, use);
  report.profile = published_profile(report.cards);
  if (const std::string why = isolation_.fallback(); !why.empty()) report.message += "; " + why;
  if (const auto other = access()) report.exclusive = exclusive_condition(*other);
  publisher_.publish(std::move(report));
}

Readiness Agent::readiness() const {
  Readiness readiness;
  {
    const MutexLock lock(mutex_);
    readiness.draining = stopping_;
    if (!started_) readiness.waiting_for.push_back(waiting_for_);
  }
  if (std::string problem = cdi_problem(); !problem.empty()) {
    readiness.waiting_for.push_back("a container runtime with CDI: " + std::move(problem));
  }
  if (incumbent_.replaced()) readiness.waiting_for.emplace_back(kReplaced);
  if (readiness.waiting_for.empty() && !registered()) {
    readiness.waiting_for.push_back("kubelet in " + settings_.plugin_folder);
  }
  if (publisher_.node_missing()) {
    readiness.waiting_for.emplace_back(
        "the Node object, which does not exist; set its name with --node-name");
  }
  readiness.failing = !pods_.problem().empty();
  if (pods_.unreadable() > 0) readiness.unreadable["pods"] = pods_.unreadable();
  if (publisher_.unreadable() > 0) readiness.unreadable["nodes"] = publisher_.unreadable();
  return readiness;
}

void Agent::update_metrics() {
  const auto all = records_.all();
  AgentMetrics::Status status;
  status.bound = static_cast<std::size_t>(std::ranges::count_if(all, &Record::bound));
  status.allocated = all.size() - status.bound;
  status.ready = ready();
  status.events_dropped = events_.dropped();
  status.unreadable_pods = pods_.unreadable();
  status.unreadable_nodes = publisher_.unreadable();
  status.mps = isolation_.mps_states();
  status.exclusive = isolation_.exclusive_cards(inventory_.state().found.cards);
  if (const auto chosen = isolation_.chosen(); chosen != IsolationMode::kAuto) {
    status.isolation = label(chosen);
  }
  status.access = access();
  status.drifts = drifts_.counts();
  const MutexLock lock(mutex_);
  if (core_plugin_) {
    status.registered[settings_.contract.core_resource] = core_plugin_->registered();
  }
  if (memory_plugin_) {
    status.registered[settings_.contract.memory_resource] = memory_plugin_->registered();
  }
  agent_metrics_.update(status);
}

}  // namespace mgpu::plugin
