// The agent's construction and its callbacks. agent_start.cc has its thread.
#include "plugin/agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "plugin/agent/known_cards.h"
#include "plugin/agent/report.h"
#include "plugin/allocation/offer.h"
#include "plugin/state/record_json.h"

namespace mgpu::plugin {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kReplaced =
    "another process of mgpu-device-plugin has replaced this one on this node";

IsolationOptions isolation_of(const AgentOptions& options, ClientTerminator& terminator) {
  IsolationOptions isolation = options.isolation;
  isolation.mps.run_dir = options.run_folder;
  isolation.mps.terminator = &terminator;
  isolation.hook_folder = options.state_folder;
  isolation.run_folder = options.run_folder;
  isolation.proc_folder = options.proc_folder;
  isolation.context = options.context;
  return isolation;
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::start(AgentOptions options, std::unique_ptr<CardSource> cards,
                                            kube::Transport& transport,
                                            std::function<void(const std::string&)> on_fatal) {
  std::unique_ptr<Agent> agent(
      new Agent(std::move(options), std::move(cards), transport, std::move(on_fatal)));
  if (auto begun = agent->begin(); !begun) return begun.error();
  return agent;
}

Agent::Agent(AgentOptions options, std::unique_ptr<CardSource> cards, kube::Transport& transport,
             std::function<void(const std::string&)> on_fatal)
    : options_(std::move(options)),
      transport_(transport),
      on_fatal_(std::move(on_fatal)),
      publisher_(options_.node, options_.contract, transport,
                 [](const std::string& problem) {
                   log_warn("publishing to the Node object failed", {{"problem", problem}});
                 }),
      access_({options_.node, options_.runtime_socket, options_.cdi_folder, options_.node_root},
              options_.access_period,
              {transport, events_, [this] { return progress_.stopping(); },
               [this] { inventory_.read_soon(); }}),
      terminator_(terminator_dependencies(), options_.proc_folder, options_.mps_end_clients),
      isolation_(isolation_of(options_, terminator_), records_,
                 [this] { return inventory_.state().cards; }),
      profile_({options_.profiles, options_.contract.profile, options_.state_folder,
                options_.isolation.mode, options_.isolation.compute, options_.reserve,
                options_.minimum_memory},
               {isolation_, records_, publisher_, events_, [this] { progress_.wake(); }}),
      inventory_(std::move(cards), inventory_dependencies()) {
  add_routes();
}

void Agent::add_routes() {
  metrics_.on_collect([this] { update_metrics(); });
  add_service_routes(router_, metrics_, work_, [this] { return readiness(); });
  router_.add("GET", "/allocations", [this](const http::Request&, const http::Respond& respond) {
    respond({.body = records_json(records_.all())});
  });
  router_.add("GET", "/drift", [this](const http::Request&, const http::Respond& respond) {
    respond({.body = drifts_.json()});
  });
}

ClientTerminator::Dependencies Agent::terminator_dependencies() {
  return {.deleted_pods = [this] { return pods_.deleted(); },
          .bound = [this] { return records_.bound(); },
          .use = [this] { return inventory_.use(); },
          .read_soon = [this] { inventory_.read_soon(); },
          .now = [this] { return transport_.executor().now(); }};
}

Inventory::Dependencies Agent::inventory_dependencies() {
  const std::string file = options_.state_folder + "/cards.json";
  return {
      .load_known =
          [this, file] {
            return find_card_indices(file, transport_, options_.node, options_.contract);
          },
      .save_known =
          [file](const KnownCards& known) {
            const auto saved = save_card_indices(file, known);
            if (saved) return true;
            log_error("indices of the cards not saved", {{"problem", saved.error().message}});
            return false;
          },
      .on_change = [this](const InventoryState& before,
                          const InventoryState& now) { on_cards_changed(before, now); },
      .now = utc_now,
      .apply_profile = [this](std::vector<FoundCard>& cards) { profile_.apply(cards); },
      .held =
          [this](const CardUuid& card) { return devices_.held(card, inventory_.state().cards); },
      .in_use =
          [this](const CardUuid& card) {
            return !pods_.listed() || !devices_.held(card, inventory_.state().cards).zero();
          },
      .problem_of =
          [this](const FoundCard& card, const Edits& shared) {
            std::string problem = access_.cdi_problem();
            if (problem.empty()) problem = given_by_another();
            if (problem.empty()) problem = isolation_.problem_of(card, shared);
            // The cards are neither published nor offered before the result, and their health, with
            // its time, stays what an earlier process has published.
            return problem == kSelfTestRuns && !settled_ ? "" : problem;
          },
      .released = [this] { return release_.reason(); },
      .around_use = [this] { reserved_.read(); },
      .on_restart_needed = [this](const std::string& why) { fail(why); }};
}

Agent::~Agent() {
  progress_.stop();
  if (thread_.joinable()) thread_.join();
  // First, so that no container may start whose hook would not be answered.
  if (pre_start_handler_) pre_start_handler_->close();
  devices_.stop(incumbent_.replaced() && !incumbent_.successor_ended());
  terminator_.stop();
  isolation_.stop();
  inventory_.stop();
  service_.reset();
}

// --- cards ---------------------------------------------------------------------------------------

void Agent::on_cards_changed(const InventoryState& before, const InventoryState& now) {
  log_info("cards changed", {{"cards", std::to_string(now.cards.size())},
                             {"healthy", std::to_string(healthy_cards(now.cards))},
                             {"problem", now.problem}});
  // Not those of now.cards, which are unhealthy while their MPS daemon does not run.
  std::vector<CardUuid> healthy;
  for (const FoundCard& card : now.found.cards) {
    const auto offered = std::ranges::find(now.cards, card.uuid, &CardFacts::uuid);
    const bool reserved = offered != now.cards.end() && offered->reserved();
    const bool held = !devices_.held(card.uuid, inventory_.state().cards).zero();
    if (card.health != kHealthy || (reserved && !held)) continue;
    healthy.push_back(card.uuid);
  }
  isolation_.mps().set_cards(healthy);
  injector_->set_shared(shared_edits(now.found));
  devices_.offer(now.cards);
  publish_node();
  if (settled_) findings_.report_unhealthy_cards(before.cards, now.cards);
  progress_.wake();
}

// The state is stored before on_cards_changed() is called, so that no card is missed here.
void Agent::settle_cards() {
  settled_ = true;
  publish_node();
  findings_.report_unhealthy_cards({}, inventory_.state().cards);
}

std::string Agent::given_by_another() const {
  if (options_.beside_nvidia) return {};
  const std::string now = publisher_.given_by_another();
  return now.empty() ? plugin::given_by_another(pods_.all()) : now;
}

void Agent::fail(const std::string& problem) {
  if (!failed_.exchange(true)) on_fatal_(problem);
}

// --- kubelet -------------------------------------------------------------------------------------

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

// --- status --------------------------------------------------------------------------------------

void Agent::publish_node() {
  if (incumbent_.replaced()) return;
  const InventoryState inventory = inventory_.state();
  if (inventory.read && !settled_) return;
  std::optional<NodeUse> use;
  if (pods_.listed()) use = use_of(pods_.all(), options_.contract);
  NodeReport report =
      report_of(inventory, devices_.held_on_unhealthy_cards(inventory.cards), devices_.registered(),
                devices_.publishes_memory(), options_.taint, use);
  report.profile = profile_.published(report.cards);
  if (const std::string why = isolation_.fallback(); !why.empty()) report.message += "; " + why;
  report.message += self_test_text(isolation_.self_tests());
  if (const std::string& why = inventory.found.links_problem; !why.empty())
    report.message += "; " + why;
  if (const auto other = access_.report()) report.exclusive = exclusive_condition(*other);
  publisher_.publish(std::move(report));
}

Readiness Agent::readiness() const {
  Readiness readiness;
  progress_.add_to(readiness);
  if (std::string problem = access_.cdi_problem(); !problem.empty()) {
    readiness.waiting_for.push_back("a container runtime with CDI: " + std::move(problem));
  }
  if (incumbent_.replaced()) readiness.waiting_for.emplace_back(kReplaced);
  if (readiness.waiting_for.empty() && !devices_.registered()) {
    readiness.waiting_for.push_back("kubelet in " + options_.plugin_folder);
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
  status.mps = isolation_.mps().states();
  status.exclusive = isolation_.mps().exclusive().exclusive(inventory_.state().found.cards);
  if (const auto chosen = isolation_.chosen(); chosen != IsolationMode::kAuto) {
    status.isolation = to_string(chosen);
  }
  status.self_tests = isolation_.self_tests();
  status.access = access_.report();
  status.drifts = drifts_.counts();
  status.registered = devices_.registered_by_resource();
  agent_metrics_.update(status);
}

}  // namespace mgpu::plugin
