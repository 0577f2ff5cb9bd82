#include "test/simulation/node.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/contract/quantity.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "test/plugin/support/gpu_objects.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

constexpr int kPluginStartMostMs = 3'000;
constexpr int kContainerStartMostMs = 1'500;
constexpr int kNotByPlugin = -1;    // Container::prepared
constexpr int kCreateMostMs = 500;  // after the plugin was called
constexpr int kContainerEndMostMs = 3'000;
// The part of the pods that need up to their grace period to end.
constexpr double kSlowEnds = 0.3;
constexpr int kSlowEndMostMs = 30'000;
constexpr char kDiskFails[] = "I/O error";  // disk.cc
constexpr Duration kRetryStart{10'000};
constexpr Duration kRetryWrite{2'000};
constexpr Duration kPublishPeriod{5'000};
constexpr Duration kBoot{5'000};

kube::Request merge_patch(std::string target, const Json& body) {
  kube::Request request;
  request.method = kube::Method::kPatch;
  request.target = std::move(target);
  request.body = body.dump();
  request.content_type = "application/merge-patch+json";
  return request;
}

std::string path_of(const PodRef& pod) {
  return "/api/v1/namespaces/" + pod.name_space + "/pods/" + pod.name;
}

kube::Request status_patch(const PodRef& pod, const PodUid& uid, const Json& status) {
  return merge_patch(path_of(pod) + "/status",
                     {{"metadata", {{"uid", uid.str()}}}, {"status", status}});
}

kube::Request delete_request(const PodRef& pod, const PodUid& uid) {
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.target = path_of(pod);
  request.content_type = "application/json";
  request.body = Json{{"gracePeriodSeconds", 0}, {"preconditions", {{"uid", uid.str()}}}}.dump();
  return request;
}

std::int64_t amount_of(const kube::Container& container, const std::string& resource) {
  const auto at = container.limits.find(resource);
  if (at == container.limits.end()) return 0;
  const auto amount = parse_whole_quantity(resource, at->second);
  return amount ? *amount : 0;
}

// The last digits of a uid count the objects of the API server.
int pid_of(const PodUid& uid) {
  constexpr std::size_t kDigits = 12;
  return std::stoi(uid.str().substr(uid.str().size() - kDigits), nullptr, 16);
}

}  // namespace

Node::Node(World world, const std::string& name, const std::string& folder)
    : world_(world),
      name_(name),
      disk_(folder),
      cards_(name, kCardsPerNode),
      run_(folder + "~run"),
      kubelet_clock_(world.server.executor()) {
  std::filesystem::create_directories(folder + "/proc");
  create_object();
  serve_pod_resources(name_, [this] { return list_devices(); });
  start_plugin();
  start_kubelet();
  publish_devices();
}

Node::~Node() {
  callbacks_.close();
  serve_pod_resources(name_, {});
}

Duration Node::any_delay(int most_ms) {
  return Duration(1 + static_cast<int>(executor().random() * most_ms));
}

void Node::kubelet_after(Duration delay, std::function<void()> task) {
  kubelet_clock_.after(delay, guarded(std::move(task)));
}

void Node::create_object() {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.target = "/api/v1/nodes";
  request.content_type = "application/json";
  request.body =
      Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name_}}}}.dump();
  world_.server.call(request);
}

// --- processes -----------------------------------------------------------------------------------

std::unique_ptr<PluginProcess> Node::new_plugin() {
  const int number = plugins_++;
  return std::make_unique<PluginProcess>(
      PluginProcess::Parts{world_.server, plugin_faults_, world_.contract, disk_, cards_,
                           run_.folder(), [this, number] { on_registered(number); },
                           [this, number] {
                             executor().post(guarded([this, number] { end_plugin(number); }));
                             start_plugin_later();
                           },
                           [this](CardIndex card) { return mps_answers(card); }},
      name_, number);
}

void Node::start_plugin() {
  plugin_ = new_plugin();
}

void Node::start_plugin_later() {
  executor().after(any_delay(kPluginStartMostMs), guarded([this] {
                     if (has_power_ && !plugin_ && !starting_) start_plugin();
                   }));
}

void Node::kill_plugin() {
  if (!plugin_) return;
  end_plugin(plugin_->number());
  start_plugin_later();
}

void Node::replace_plugin(bool successor_ends, Duration time) {
  if (!plugin_ || starting_ || replaced_) return;
  const int first = plugin_->number();
  starting_ = new_plugin();
  const int second = starting_->number();
  executor().after(time, guarded([this, successor_ends, first, second] {
                     if (runs(first) && runs(second)) end_plugin(successor_ends ? second : first);
                   }));
}

// The first process registers last where the second one has started faster.
void Node::on_registered(int plugin) {
  unregistered_ = false;
  if (starting_ && starting_->number() == plugin) {
    replaced_ = std::move(plugin_);
    plugin_ = std::move(starting_);
  } else if (replaced_ && replaced_->number() == plugin) {
    std::swap(plugin_, replaced_);
  }
}

bool Node::runs(int plugin) const {
  return std::ranges::any_of(
      std::array{&plugin_, &starting_, &replaced_},
      [=](const auto* process) { return *process && (*process)->number() == plugin; });
}

// When the process that kubelet calls ends, it calls the other one.
void Node::end_plugin(int plugin) {
  for (auto* process : {&plugin_, &starting_, &replaced_}) {
    if (*process && (*process)->number() == plugin) process->reset();
  }
  if (!plugin_) plugin_ = std::move(replaced_);
}

void Node::start_kubelet() {
  kubelet_link_ = std::make_unique<Link>(world_.server, kubelet_faults_);
  kube::Consumer<kube::Pod> consumer;
  consumer.read = kube::read_pod;
  consumer.apply = [this](const kube::Pod& pod) { on_pod(pod); };
  consumer.remove = [this](const kube::Pod& pod) { forget(pod.uid()); };
  consumer.relist = [this](const std::vector<kube::Pod>& pods, bool) {
    std::set<PodUid> present;
    for (const kube::Pod& pod : pods) present.insert(pod.uid());
    for (const auto& [uid, state] : pods_) {
      if (!present.contains(uid)) forget(uid);
    }
    for (const kube::Pod& pod : pods) on_pod(pod);
  };
  reflector_ =
      std::make_unique<kube::Reflector>("pods", kube::pods_of_node(NodeName(name_)), *kubelet_link_,
                                        std::move(consumer), kube::ReflectorEvents());
  reflector_->start();
}

void Node::restart_kubelet() {
  if (!has_power_) return;
  reflector_.reset();
  start_kubelet();
  unregistered_ = true;
  for (const auto* plugin : {&plugin_, &replaced_}) {
    if (*plugin) (*plugin)->register_again();
  }
}

std::vector<PodUid> Node::running() const {
  std::vector<PodUid> uids;
  for (const auto& [uid, state] : pods_) {
    const bool runs = std::ranges::all_of(state.containers, &Container::started);
    if (runs && !state.ending && has_power_) uids.push_back(uid);
  }
  return uids;
}

void Node::crash_containers(int pod) {
  const auto uids = running();
  if (!uids.empty()) crash(uids[static_cast<std::size_t>(pod) % uids.size()]);
}

void Node::end_mps(int card, Duration time) {
  Instant& starts = mps_starts_.at(static_cast<std::size_t>(card));
  starts = std::max(starts, executor().now() + time);
  for (const PodUid& uid : running()) {
    const bool on_card = std::ranges::any_of(pods_.at(uid).containers, [&](const auto& container) {
      return std::ranges::count(container.cards, CardIndex(card)) > 0;
    });
    if (on_card) crash(uid);
  }
}

void Node::restart_services(int pod, Duration mps_ends) {
  kill_plugin();
  restart_kubelet();
  crash_containers(pod);
  for (int card = 0; card < kCardsPerNode; ++card) end_mps(card, mps_ends);
}

bool Node::mps_answers(CardIndex card) const {
  return world_.server.executor().now() >= mps_starts_.at(static_cast<std::size_t>(card.value()));
}

void Node::crash(const PodUid& uid) {
  end_process(uid);
  world_.invariants.end_containers(uid);
  for (Container& container : pods_.at(uid).containers) container.set_ended();
  start_containers_later(uid, any_delay(kContainerStartMostMs));
}

void Node::put_spec_back() {
  if (!has_power_) return;
  ++specs_put_back_;
  put_empty_spec(run_.folder(), world_.contract);
}

void Node::freeze_kubelet(Duration time) {
  kubelet_clock_.freeze(time);
  if (kubelet_link_) kubelet_link_->executor().freeze(time);
}

void Node::pause(Duration time) {
  kubelet_clock_.pause(time);
  if (kubelet_link_) kubelet_link_->executor().pause(time);
  for (const auto* plugin : {&plugin_, &starting_, &replaced_}) {
    if (*plugin) (*plugin)->link().executor().pause(time);
  }
}

void Node::fail_disk(Duration time) {
  disk_.set_failing(true);
  disk_fails_until_ = std::max(disk_fails_until_, executor().now() + time);
  executor().after(time, guarded([this] {
                     if (executor().now() >= disk_fails_until_) disk_.set_failing(false);
                   }));
}

// Containers and what is in memory are lost; kubelet keeps its checkpoint, and starts its pods
// again.
void Node::lose_power() {
  if (!std::exchange(has_power_, false)) return;
  for (auto& [uid, state] : pods_) {
    end_process(uid);
    world_.invariants.end_containers(uid);
    for (Container& container : state.containers) container.set_ended();
  }
  for (auto* plugin : {&plugin_, &starting_, &replaced_}) plugin->reset();
  reflector_.reset();
  kubelet_link_.reset();
  std::filesystem::remove_all(run_.folder());
  disk_.lose_power();
  unregistered_ = false;
  executor().after(kBoot, guarded([this] { boot(); }));
}

void Node::boot() {
  has_power_ = true;
  start_plugin_later();
  start_kubelet();
  for (auto& [uid, state] : pods_) {
    if (std::exchange(state.ending, false)) {
      end_later(uid);
    } else {
      start_containers_later(uid, any_delay(kContainerStartMostMs));
    }
  }
}

void Node::set_card_healthy(int card, bool healthy) {
  cards_.set_healthy(card, healthy);
  for (const auto* plugin : {&plugin_, &starting_, &replaced_}) {
    if (*plugin) (*plugin)->cards_changed();
  }
}

// --- devices -------------------------------------------------------------------------------------

// As kubelet does: the capacity is what the plugin offers, and what is allocatable follows the
// capacity, also of a resource that others publish.
void Node::publish_devices() {
  kubelet_after(kPublishPeriod, [this] { publish_devices(); });
  if (!reflector_ || !plugin_answers()) return;
  const auto response = world_.server.call(kube::get_node(NodeName(name_)));
  if (!response.ok()) return;
  const Json status = Json::parse(response.body).value("status", Json::object());
  const Json before = status.value("capacity", Json::object());
  Json capacity = before;
  capacity[world_.contract.core_resource] = std::to_string(plugin_->offered_core().value());
  if (capacity == before && status.value("allocatable", Json()) == capacity) return;
  world_.server.call(
      merge_patch("/api/v1/nodes/" + name_ + "/status",
                  {{"status", {{"capacity", capacity}, {"allocatable", capacity}}}}));
}

Result<std::vector<plugin::ContainerDevices>> Node::list_devices() const {
  if (!reflector_ || kubelet_clock_.frozen()) return error("kubelet does not answer");
  std::vector<plugin::ContainerDevices> listed;
  for (const auto& [uid, state] : pods_) {
    if (state.forgotten) continue;
    for (const Container& container : state.containers) {
      listed.push_back({state.ref, container.name, plugin::DeviceSet::of(container.ids).value()});
    }
  }
  return listed;
}

void Node::write_checkpoint() const {
  std::vector<test::CheckpointLine> lines;
  for (const auto& [uid, state] : pods_) {
    if (state.forgotten) continue;
    for (const Container& container : state.containers) {
      lines.push_back({uid.str(), container.name, container.ids, container.allocation});
    }
  }
  test::write_checkpoint(disk_.folder(), lines);
}

// One process for each pod: the plugin reads only whether a pod has any.
void Node::start_process(const PodUid& uid) const {
  test::add_process(disk_.folder() + "/proc", pid_of(uid), uid);
}

void Node::end_process(const PodUid& uid) const {
  test::remove_process(disk_.folder() + "/proc", pid_of(uid));
}

// --- pods ----------------------------------------------------------------------------------------

void Node::write(const kube::Request& request) {
  if (!kubelet_link_) return;
  kubelet_link_->send(request, callbacks_.wrap([this, request](const kube::Response& response) {
    if (response.ok() || response.status == 404 || response.status == 409 ||
        response.status == 422) {
      return;
    }
    kubelet_after(kRetryWrite, [this, request] { write(request); });
  }));
}

// A write may have been lost with kubelet, or overtaken by an earlier one.
void Node::repeat_last_write(const kube::Pod& pod) {
  if (pod.metadata.being_deleted) return write(delete_request(pod.ref(), pod.uid()));
  if (!pod.finished()) write(done_.at(pod.uid()));
}

void Node::on_pod(const kube::Pod& pod) {
  const PodUid uid = pod.uid();
  if (done_.contains(uid)) return repeat_last_write(pod);
  if (pod.metadata.being_deleted || pod.finished()) {
    if (pods_.contains(uid)) return end_later(uid);
    if (pod.metadata.being_deleted) {
      pods_[uid] = {pod.ref(), {}, false};
      end_later(uid);
    }
    return;
  }
  if (!pods_.contains(uid)) admit(pod);
}

void Node::admit(const kube::Pod& pod) {
  PodState state{pod.ref(), {}, false};
  if (!allocate(pod, state)) {
    done_[pod.uid()] = status_patch(pod.ref(), pod.uid(),
                                    {{"phase", "Failed"}, {"reason", "UnexpectedAdmissionError"}});
    return write(done_[pod.uid()]);
  }
  pods_[pod.uid()] = std::move(state);
  write_checkpoint();
  start_containers_later(pod.uid(), any_delay(kContainerStartMostMs));
}

bool Node::allocate(const kube::Pod& pod, PodState& state) {
  std::set<std::string> used;
  for (const auto& [uid, other] : pods_) {
    if (other.forgotten) continue;
    for (const Container& container : other.containers) {
      used.insert(container.ids.begin(), container.ids.end());
    }
  }
  for (const kube::Container& container : pod.containers) {
    const std::int64_t core = amount_of(container, world_.contract.core_resource);
    if (core == 0) continue;
    // kubelet waits for a plugin that is frozen; this one gives up at once.
    if (!plugin_answers()) return false;
    std::vector<std::string> ids;
    for (const std::string& id : plugin_->offered()) {
      if (std::ssize(ids) < core && !used.contains(id)) ids.push_back(id);
    }
    if (std::ssize(ids) < core) return false;
    used.insert(ids.begin(), ids.end());
    const auto answer = plugin_->allocate(ids);
    if (!answer) return false;
    state.containers.push_back(
        {container.name, std::move(ids), answer->environment.at("MGPU_ALLOCATION"), false});
  }
  return true;
}

void Node::start_containers_later(const PodUid& uid, Duration delay) {
  kubelet_after(delay, [this, uid] { start_containers(uid); });
}

// Calls the plugin. kubelet leaves the call out where it has read of the plugin in its checkpoint
// only.
bool Node::prepare(Container& container) {
  if (unregistered_ && !container.cards.empty()) {
    container.prepared = kNotByPlugin;
    return true;
  }
  if (!plugin_answers()) return false;
  const auto prepared = plugin_->pre_start(container.ids);
  if (!prepared && container.has_record &&
      prepared.error().message.find(kDiskFails) != std::string::npos) {
    world_.invariants.violate("the disk keeps a container from starting again that has its record");
  }
  if (!prepared) return false;
  container.has_record = true;
  container.prepared = specs_put_back_;
  return true;
}

void Node::start_containers(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || at->second.ending || !reflector_) return;
  PodState& state = at->second;
  for (Container& container : state.containers) {
    if (container.started) continue;
    if (!prepare(container)) {
      return start_containers_later(uid, kRetryStart + any_delay(kContainerStartMostMs));
    }
    return kubelet_after(any_delay(kCreateMostMs), [this, uid] { create_container(uid); });
  }
  Json statuses = Json::array();
  for (const Container& container : state.containers) {
    statuses.push_back({{"name", container.name}, {"containerID", "containerd://" + uid.str()}});
  }
  write(status_patch(state.ref, uid, {{"phase", "Running"}, {"containerStatuses", statuses}}));
}

// What the runtime does: it reads the CDI specs, creates no container that is not in them, and runs
// the hooks in them.
void Node::create_container(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || at->second.ending) return;
  auto& containers = at->second.containers;
  const auto next = std::ranges::find(containers, false, &Container::started);
  const auto prepared = next == containers.end() ? std::nullopt : std::exchange(next->prepared, {});
  if (!prepared) return;
  const auto entry = find_in_spec(run_.folder(), world_.contract, next->allocation);
  if (!entry) {
    if (*prepared == specs_put_back_) {
      world_.invariants.violate("a plugin removes a container from the CDI spec that is to start");
    }
    return start_containers_later(uid, kRetryStart);
  }
  const bool has_mps =
      std::ranges::all_of(entry->cards, [this](CardIndex card) { return mps_answers(card); });
  if (entry->asks_mps && !has_mps) return start_containers_later(uid, kRetryStart);
  if (entry->is_limited_by_mps && !has_mps) {
    world_.invariants.violate("a container starts without the MPS daemon that limits it");
  }
  next->started = true;
  next->cards = entry->cards;
  start_process(uid);
  world_.invariants.start_container(uid, next->name, name_, entry->cards);
  start_containers(uid);
}

void Node::forget(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end()) return;
  at->second.forgotten = true;
  write_checkpoint();
  end_later(uid);
}

void Node::end_later(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || std::exchange(at->second.ending, true)) return;
  const bool slow = executor().random() < kSlowEnds;
  kubelet_after(any_delay(slow ? kSlowEndMostMs : kContainerEndMostMs), [this, uid] { end(uid); });
}

// Not where the power was lost meanwhile.
void Node::end(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || !has_power_) return;
  done_[uid] = delete_request(at->second.ref, uid);
  forget_containers(uid);
  write(done_[uid]);
}

void Node::finish(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || at->second.ending || !has_power_) return;
  done_[uid] = status_patch(at->second.ref, uid, {{"phase", "Succeeded"}});
  forget_containers(uid);
  write(done_[uid]);
}

void Node::forget_containers(const PodUid& uid) {
  end_process(uid);
  world_.invariants.end_containers(uid);
  pods_.erase(uid);
  write_checkpoint();
}

std::vector<PodUid> Node::not_started() const {
  std::vector<PodUid> pods;
  for (const auto& [uid, state] : pods_) {
    const bool started = std::ranges::all_of(state.containers, &Container::started);
    if (!started && !state.ending) pods.push_back(uid);
  }
  return pods;
}

}  // namespace mgpu::simulation
