#include "test/simulation/node.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/contract/quantity.h"
#include "common/kube/object_json.h"
#include "common/kube/request.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/simulation/plan.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

constexpr int kPluginStartMostMs = 3'000;
constexpr int kContainerStartMostMs = 1'500;
constexpr int kContainerEndMostMs = 3'000;
// The part of the pods that need up to their grace period to end.
constexpr double kSlowEnds = 0.3;
constexpr int kSlowEndMostMs = 30'000;
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
    : world_(world), name_(name), disk_(folder), cards_(name, kCardsPerNode) {
  std::filesystem::create_directories(folder + "/proc");
  create_object();
  serve_pod_resources(name_, [this] { return list_devices(); });
  plugin_ = std::make_unique<PluginProcess>(
      PluginProcess::Parts{world_.server, plugin_fates_, world_.contract, disk_, cards_, injector_},
      name_, plugins_++);
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

void Node::kill_plugin() {
  if (!plugin_) return;
  plugin_.reset();
  start_plugin_later();
}

void Node::start_plugin_later() {
  executor().after(any_delay(kPluginStartMostMs), guarded([this] {
                     if (plugin_) return;
                     plugin_ = std::make_unique<PluginProcess>(
                         PluginProcess::Parts{world_.server, plugin_fates_, world_.contract, disk_,
                                              cards_, injector_},
                         name_, plugins_++);
                   }));
}

void Node::start_kubelet() {
  kubelet_link_ = std::make_unique<Link>(world_.server, kubelet_fates_);
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
                                        std::move(consumer), kube::ReflectorHandlers());
  reflector_->start();
}

void Node::restart_kubelet() {
  reflector_.reset();
  start_kubelet();
}

// Containers and what is in memory are lost; kubelet keeps its checkpoint, and starts its pods
// again.
void Node::lose_power() {
  for (auto& [uid, state] : pods_) {
    end_process(uid);
    world_.truth.end_containers(uid);
    for (Container& container : state.containers) container.started = false;
  }
  plugin_.reset();
  reflector_.reset();
  injector_.clear();
  disk_.lose_power();
  executor().after(kBoot, guarded([this] {
                     start_plugin_later();
                     if (!reflector_) start_kubelet();
                     for (const auto& [uid, state] : pods_) {
                       if (!state.ending)
                         start_containers_later(uid, any_delay(kContainerStartMostMs));
                     }
                   }));
}

void Node::set_card_healthy(int card, bool healthy) {
  cards_.set_healthy(card, healthy);
  if (plugin_) plugin_->cards_changed();
}

// --- devices -------------------------------------------------------------------------------------

// As kubelet does: the capacity is what the plugin offers, and what is allocatable follows the
// capacity, also of a resource that others publish.
void Node::publish_devices() {
  executor().after(kPublishPeriod, guarded([this] { publish_devices(); }));
  const auto response = world_.server.call(kube::get_node(NodeName(name_)));
  if (!response.ok() || !plugin_) return;
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

void Node::set_status(const PodRef& pod, const PodUid& uid, const std::string& status) {
  write(merge_patch(path_of(pod) + "/status",
                    {{"metadata", {{"uid", uid.str()}}}, {"status", Json::parse(status)}}));
}

void Node::write(const kube::Request& request) {
  kubelet_link_->send(request, callbacks_.wrap([this, request](const kube::Response& response) {
    if (response.ok() || response.status == 404 || response.status == 409 ||
        response.status == 422) {
      return;
    }
    executor().after(kRetryWrite, guarded([this, request] { write(request); }));
  }));
}

void Node::on_pod(const kube::Pod& pod) {
  const PodUid uid = pod.uid();
  if (done_.contains(uid)) return;
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
    done_.insert(pod.uid());
    return set_status(pod.ref(), pod.uid(),
                      R"({"phase":"Failed","reason":"UnexpectedAdmissionError"})");
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
    if (!plugin_) return false;
    std::vector<std::string> ids;
    for (const std::string& id : plugin_->offered()) {
      if (std::ssize(ids) < core && !used.contains(id)) ids.push_back(id);
    }
    if (std::ssize(ids) < core) return false;
    used.insert(ids.begin(), ids.end());
    const auto answer = plugin_->allocate(ids);
    if (!answer) return false;
    state.containers.push_back(
        {container.name, std::move(ids), answer->edits.environment.at("MGPU_ALLOCATION"), false});
  }
  return true;
}

void Node::start_containers_later(const PodUid& uid, Duration delay) {
  executor().after(delay, guarded([this, uid] { start_containers(uid); }));
}

void Node::start_containers(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || at->second.ending || !reflector_) return;
  PodState& state = at->second;
  for (Container& container : state.containers) {
    if (container.started) continue;
    if (!plugin_ || !plugin_->pre_start(container.ids)) {
      return start_containers_later(uid, kRetryStart + any_delay(kContainerStartMostMs));
    }
    container.started = true;
    start_process(uid);
    world_.truth.start_container(uid, container.name, name_,
                                 injector_.cards_of(plugin::AllocationId(container.allocation)));
  }
  Json statuses = Json::array();
  for (const Container& container : state.containers) {
    statuses.push_back({{"name", container.name}, {"containerID", "containerd://" + uid.str()}});
  }
  set_status(state.ref, uid, Json{{"phase", "Running"}, {"containerStatuses", statuses}}.dump());
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
  executor().after(any_delay(slow ? kSlowEndMostMs : kContainerEndMostMs),
                   guarded([this, uid] { end(uid); }));
}

void Node::end(const PodUid& uid) {
  const PodRef ref = pods_.at(uid).ref;
  end_process(uid);
  world_.truth.end_containers(uid);
  pods_.erase(uid);
  done_.insert(uid);
  write_checkpoint();
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.target = path_of(ref);
  request.content_type = "application/json";
  request.body = Json{{"gracePeriodSeconds", 0}, {"preconditions", {{"uid", uid.str()}}}}.dump();
  write(request);
}

void Node::finish(const PodUid& uid) {
  const auto at = pods_.find(uid);
  if (at == pods_.end() || at->second.ending) return;
  const PodRef ref = at->second.ref;
  end_process(uid);
  world_.truth.end_containers(uid);
  pods_.erase(at);
  done_.insert(uid);
  write_checkpoint();
  set_status(ref, uid, R"({"phase":"Succeeded"})");
}

}  // namespace mgpu::simulation
