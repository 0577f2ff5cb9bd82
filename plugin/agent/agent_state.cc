// Kubelet, cards and node object: what happens while the agent is up. agent_start.cc brings it up.
#include "plugin/agent/agent_state.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/utc_text.h"
#include "plugin/agent/report.h"
#include "plugin/allocation/offer.h"
#include "plugin/state/record_json.h"

namespace mgpu::plugin {

namespace {

using Clock = std::chrono::steady_clock;

MpsOptions mps_options(const AgentSettings& settings) {
  MpsOptions options;
  options.control = settings.mps_control;
  options.run_dir = settings.run_folder;
  return options;
}

std::vector<CardUuid> healthy(const std::vector<CardFacts>& cards) {
  std::vector<CardUuid> uuids;
  for (const CardFacts& card : cards) {
    if (card.healthy()) uuids.push_back(card.uuid);
  }
  return uuids;
}

std::vector<Device> healthy_devices(std::vector<std::string> ids) {
  std::vector<Device> devices;
  devices.reserve(ids.size());
  for (std::string& id : ids) devices.push_back({std::move(id), true});
  return devices;
}

}  // namespace

Agent::State::State(AgentSettings settings, std::unique_ptr<CardSource> cards,
                    kube::Transport& transport, std::function<void(const std::string&)> on_fatal)
    : settings_(std::move(settings)),
      transport_(transport),
      on_fatal_(std::move(on_fatal)),
      records_(settings_.state_folder + "/allocations"),
      known_file_(settings_.state_folder + "/cards.json"),
      events_(settings_.node, transport, utc_now),
      publisher_(std::make_unique<NodePublisher>(settings_.node, settings_.contract, transport,
                                                 [](const std::string& problem) {
                                                   log_warn("node object", {{"problem", problem}});
                                                 })),
      pods_(std::make_unique<Pods>(settings_.node, transport, nullptr)),
      mps_(settings_.mps ? std::make_unique<Mps>(mps_options(settings_)) : nullptr),
      pod_resources_(settings_.pod_resources_socket),
      inventory_(std::move(cards),
                 {.load_known = [this] { return recall(); },
                  .save_known = [this](const KnownCards& known) { return remember(known); },
                  .on_change = [this](const InventoryState& before,
                                      const InventoryState& now) { on_cards(before, now); },
                  .now = utc_now}) {
  own_metrics_.before_reading([this] { update_metrics(); });
  add_routes();
}

bool Agent::State::wait(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, time, [this]() MGPU_REQUIRES(mutex_) { return ending_; });
}

// --- cards ---------------------------------------------------------------------------------------

std::optional<KnownCards> Agent::State::recall() {
  auto known = known_file_.load();
  if (known) return *std::move(known);
  log_info("asking the node object which indices its cards have",
           {{"because", known.error().message}});
  known = known_at_api_server(transport_, settings_.node, settings_.contract);
  if (known) return *std::move(known);
  log_warn("cannot tell which indices the cards had; waiting",
           {{"problem", known.error().message}});
  return std::nullopt;
}

bool Agent::State::remember(const KnownCards& known) {
  const auto saved = known_file_.save(known);
  if (!saved) log_error("cards are not kept on disk", {{"problem", saved.error().message}});
  return saved.has_value();
}

void Agent::State::on_cards(const InventoryState& before, const InventoryState& now) {
  log_info("cards", {{"cards", std::to_string(now.cards.size())},
                     {"healthy", std::to_string(healthy_cards(now.cards))},
                     {"problem", now.problem}});
  if (mps_) mps_->set_cards(healthy(now.cards));
  if (injector_) injector_->set_shared(now.found.shared);
  offer(now.cards);
  publish();
  tell_of_sick_cards(before, now);
  changed_.notify_all();
}

void Agent::State::tell_of_sick_cards(const InventoryState& before, const InventoryState& now) {
  for (const CardFacts& card : now.cards) {
    const auto was = std::ranges::find(before.cards, card.uuid, &CardFacts::uuid);
    if (card.healthy() || (was != before.cards.end() && !was->healthy())) continue;
    const std::string what = "card " + std::to_string(card.index.value()) + " (" + card.uuid.str() +
                             ") is not healthy: " + card.health;
    events_.on_node({Event::Type::kWarning, "MGPUCardUnhealthy", what});
    for (const Record& record : records_.bound()) {
      const auto on = std::ranges::find(record.cards, card.uuid, &CardGrant::uuid);
      if (on == record.cards.end()) continue;
      events_.on_pod(record.owner->pod, record.owner->uid,
                     {Event::Type::kWarning, "MGPUCardUnhealthy",
                      "container " + record.owner->container + ": " + what +
                          "; delete the pod so that it is scheduled on a healthy card"});
    }
  }
}

std::vector<Device> Agent::State::core_devices(const std::vector<CardFacts>& cards) const {
  return healthy_devices(offered_core_ids(cards, records_.bound()));
}

std::vector<Device> Agent::State::memory_devices(const std::vector<CardFacts>& cards) const {
  return healthy_devices(offered_memory_ids(cards));
}

void Agent::State::offer(const std::vector<CardFacts>& cards) {
  const MutexLock lock(mutex_);
  if (core_plugin_) core_plugin_->set_devices(core_devices(cards));
  if (!memory_plugin_) return;
  if (auto fits = check_memory_list(healthy_memory(cards)); !fits) {
    log_error("mgpu-memory is not told anew", {{"problem", fits.error().message}});
  } else {
    memory_plugin_->set_devices(memory_devices(cards));
  }
}

// --- kubelet -------------------------------------------------------------------------------------

bool Agent::State::registered() const {
  const MutexLock lock(mutex_);
  if (!core_plugin_ || !core_plugin_->registered()) return false;
  return !memory_plugin_ || memory_plugin_->registered();
}

void Agent::State::on_registration(const std::string& resource, const Result<void>& outcome) {
  if (outcome) {
    log_info("kubelet has registered us", {{"resource", resource}});
  } else {
    log_warn("not registered with kubelet, trying again",
             {{"resource", resource}, {"problem", outcome.error().message}});
  }
  changed_.notify_all();
}

Result<AllocateResponse> Agent::State::allocate(const std::vector<std::string>& ids) {
  const auto start = Clock::now();
  auto response = allocator_->allocate(ids);
  own_metrics_.allocated(Clock::now() - start);
  return response;
}

Result<void> Agent::State::pre_start(const std::vector<std::string>& ids,
                                     const std::function<bool()>& cancelled) {
  const auto start = Clock::now();
  const auto started = starter_->start(ids, cancelled);
  if (started) {
    own_metrics_.started(Clock::now() - start);
    return {};
  }
  own_metrics_.refused(started.error().reason, Clock::now() - start);
  return error(started.error().message);
}

void Agent::State::on_refused(const Refusal& refusal) {
  log_warn("container is not started", {{"reason", std::string(label(refusal.reason))},
                                        {"pod", to_string(refusal.pod)},
                                        {"problem", refusal.message}});
  if (refusal.pod.name.empty()) return;
  events_.on_pod(
      refusal.pod, refusal.uid,
      {Event::Type::kWarning, std::string(event_reason(refusal.reason)), refusal.message});
}

// --- what is told --------------------------------------------------------------------------------

void Agent::State::publish() {
  publisher_->publish(report_of(inventory_.state(), registered(),
                                settings_.memory_resource == MemoryResource::kDevicePlugin));
}

Readiness Agent::State::readiness() const {
  Readiness readiness;
  {
    const MutexLock lock(mutex_);
    readiness.draining = ending_;
    if (!up_) readiness.waiting_for.push_back(waiting_for_);
  }
  if (readiness.waiting_for.empty() && !registered()) {
    readiness.waiting_for.push_back("kubelet in " + settings_.plugin_folder);
  }
  if (publisher_->node_missing()) {
    readiness.waiting_for.push_back("node object " + settings_.node.str() +
                                    ", which does not exist; --node-name says another name");
  }
  readiness.problem = pods_->problem();
  if (pods_->unreadable() > 0) readiness.unreadable["pods"] = pods_->unreadable();
  return readiness;
}

void Agent::State::update_metrics() {
  const auto all = records_.all();
  const auto bound = static_cast<std::size_t>(std::ranges::count_if(all, &Record::bound));
  own_metrics_.allocations(all.size() - bound, bound);
  own_metrics_.ready(readiness().waiting_for.empty());
  own_metrics_.events_dropped(events_.dropped());
  own_metrics_.unreadable_pods(pods_->unreadable());
  if (mps_) own_metrics_.mps(mps_->states());
  const MutexLock lock(mutex_);
  if (core_plugin_) {
    own_metrics_.registered(settings_.contract.core_resource, core_plugin_->registered());
  }
  if (memory_plugin_) {
    own_metrics_.registered(settings_.contract.memory_resource, memory_plugin_->registered());
  }
}

void Agent::State::add_routes() {
  add_service_routes(router_, metrics_, [this] { return readiness(); });
  router_.add("GET", "/allocations", [this](const http::Request&, const http::Respond& respond) {
    respond({.body = records_json(records_.all())});
  });
}

}  // namespace mgpu::plugin
