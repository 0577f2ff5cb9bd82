#include "test/simulation/scheduler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

constexpr Duration kFilterTimeout{5'000};
constexpr Duration kBindTimeout{5'000};
constexpr Duration kBackoffFirst{1'000};
constexpr Duration kBackoffMax{10'000};
constexpr Duration kFlushAfter{300'000};
constexpr Duration kPoll{50};
constexpr int kBackoffDoublings = 4;

std::int64_t amount(const kube::StringMap& amounts, const std::string& resource) {
  const auto at = amounts.find(resource);
  if (at == amounts.end()) return 0;
  const auto value = parse_whole_quantity(resource, at->second);
  return value ? *value : 0;
}

std::int64_t requested(const kube::Pod& pod, const std::string& resource) {
  PodRequests<std::int64_t> requests;
  for (const kube::Container& container : pod.containers) {
    requests.add_lasting(amount(container.limits, resource));
  }
  return requests.peak();
}

std::string path_of(const kube::Pod& pod) {
  return "/api/v1/namespaces/" + pod.metadata.name_space + "/pods/" + pod.metadata.name;
}

Json read(const std::string& body) {
  return Json::parse(body, nullptr, false);
}

}  // namespace

Scheduler::Scheduler(kube::MemoryApiServer& server, FaultQueue& faults, const Contract& contract,
                     CallExtender extender, Reports reports, bool reprieves)
    : contract_(contract),
      extender_(std::move(extender)),
      reports_(std::move(reports)),
      reprieves_(reprieves),
      link_(server, faults) {
  const auto reflector = [this](const char* name, const std::string& path, auto consumer) {
    auto made = std::make_unique<kube::Reflector>(name, kube::Resource{path, ""}, link_,
                                                  std::move(consumer), kube::ReflectorEvents());
    made->start();
    return made;
  };
  pod_reflector_ = reflector("pods", "/api/v1/pods", pod_consumer());
  node_reflector_ = reflector("nodes", "/api/v1/nodes", node_consumer());
  kube::Consumer<std::string> capacities;
  capacities.read = [](std::string_view json) { return Result<std::string>(std::string(json)); };
  capacities.apply = [this](const std::string&) { wake_all(); };
  capacities.remove = [](const std::string&) {};
  capacities.relist = [this](const std::vector<std::string>&, bool) { wake_all(); };
  capacity_reflector_ =
      reflector("csistoragecapacities", "/apis/storage.k8s.io/v1/csistoragecapacities", capacities);
  run_later();
}

// --- the cache -----------------------------------------------------------------------------------

kube::Consumer<Scheduler::Pod> Scheduler::pod_consumer() {
  kube::Consumer<Pod> consumer;
  consumer.read = [this](std::string_view json) -> Result<Pod> {
    auto pod = kube::read_pod(json);
    if (!pod) return pod.error();
    Pod read;
    read.pod = *std::move(pod);
    read.json = std::string(json);
    read.group = group_of(read.pod);
    read.amounts = {requested(read.pod, contract_.core_resource),
                    requested(read.pod, contract_.memory_resource)};
    return read;
  };
  consumer.apply = [this](Pod pod) { apply(std::move(pod)); };
  consumer.remove = [this](const Pod& pod) { remove(pod.pod.uid()); };
  consumer.relist = [this](std::vector<Pod> pods, bool) {
    std::set<PodUid> present;
    for (const Pod& pod : pods) present.insert(pod.pod.uid());
    std::vector<PodUid> gone;
    for (const auto& [uid, held] : pods_)
      if (!present.contains(uid)) gone.push_back(uid);
    for (const PodUid& uid : gone) remove(uid);
    for (Pod& pod : pods) apply(std::move(pod));
    wake_all();
  };
  return consumer;
}

kube::Consumer<kube::Node> Scheduler::node_consumer() {
  kube::Consumer<kube::Node> consumer;
  consumer.read = kube::read_node;
  consumer.apply = [this](kube::Node node) {
    nodes_[node.metadata.name] = std::move(node);
    wake_all();
  };
  consumer.remove = [this](const kube::Node& node) { nodes_.erase(node.metadata.name); };
  consumer.relist = [this](std::vector<kube::Node> nodes, bool) {
    nodes_.clear();
    for (kube::Node& node : nodes) nodes_[node.metadata.name] = std::move(node);
    wake_all();
  };
  return consumer;
}

void Scheduler::apply(Pod pod) {
  Pod& held = pods_[pod.pod.uid()];
  const bool ended = pod.pod.finished() && !held.pod.finished();
  held.pod = std::move(pod.pod);
  held.json = std::move(pod.json);
  held.amounts = pod.amounts;
  held.group = std::move(pod.group);
  if (ended) wake_all();
}

void Scheduler::remove(const PodUid& uid) {
  const Pod* held = find(uid);
  if (held != nullptr && held->waits_in_permit) reject_waiting(PodGroup(*held->group));
  pods_.erase(uid);
  wake_all();
}

void Scheduler::wake_all() {
  for (auto& [uid, pod] : pods_) pod.waits_for_event = false;
}

Scheduler::Pod* Scheduler::find(const PodUid& uid) {
  const auto at = pods_.find(uid);
  return at == pods_.end() ? nullptr : &at->second;
}

Scheduler::Amounts Scheduler::used_on(const std::string& node, const PodUid& except) const {
  Amounts used;
  for (const auto& [uid, pod] : pods_) {
    if (uid == except || pod.node() != node || pod.pod.finished()) continue;
    used.core += pod.amounts.core;
    used.memory += pod.amounts.memory;
  }
  return used;
}

std::vector<std::string> Scheduler::nodes_with_room(const PodUid& uid) const {
  std::vector<std::string> names;
  const auto at = pods_.find(uid);
  if (at == pods_.end()) return names;
  const Pod& pod = at->second;
  for (const auto& [name, node] : nodes_) {
    const Amounts used = used_on(name, uid);
    const auto fits = [&](const std::string& resource, std::int64_t wanted, std::int64_t taken) {
      return wanted == 0 || wanted + taken <= amount(node.allocatable, resource);
    };
    if (fits(contract_.core_resource, pod.amounts.core, used.core) &&
        fits(contract_.memory_resource, pod.amounts.memory, used.memory)) {
      names.push_back(name);
    }
  }
  return names;
}

// --- the queue -----------------------------------------------------------------------------------

void Scheduler::run_later() {
  executor().after(kPoll, callbacks_.wrap([this] {
    run();
    run_later();
  }));
}

// The pods of groups by label come last: where many of them never fit, they take all cycles, and
// the other pods would never be tried.
std::optional<PodUid> Scheduler::next_pod() {
  const Instant now = executor().now();
  std::optional<PodUid> by_label;
  std::map<std::string_view, int> members;  // of the groups that may be tried now
  for (const auto& [uid, pod] : pods_) {
    const bool counts = pod.queued() || (!pod.node().empty() && !pod.pod.finished());
    if (pod.group && counts && now >= groups_[pod.group->name].until) ++members[pod.group->name];
  }
  for (auto& [uid, pod] : pods_) {
    if (!pod.queued()) continue;
    if (pod.group) {
      // The queue keeps a group back until there are as many pods as it needs.
      const auto present = members.find(pod.group->name);
      if (present == members.end() || present->second < pod.group->min_count) continue;
      if (!pod.group->by_label) return uid;
    }
    if (pod.waits_for_event && now - pod.since < kFlushAfter) continue;
    if (now < pod.retry.until) continue;
    if (!pod.group) return uid;
    if (!by_label) by_label = uid;
  }
  return by_label;
}

void Scheduler::run() {
  if (in_cycle_) return;
  const auto uid = next_pod();
  if (!uid) return;
  ++cycles_;
  in_cycle_ = true;
  const Pod& pod = pods_.at(*uid);
  pod.group && !pod.group->by_label ? schedule_group(*pod.group) : schedule(*uid);
}

void Scheduler::schedule(const PodUid& uid) {
  Pod& pod = pods_.at(uid);
  pod.busy = true;
  pod.waits_for_event = false;
  const auto nodes = nodes_with_room(uid);
  if (nodes.empty()) {
    if (pod.group) reject_unless_few_are_missing(*pod.group);
    std::vector<std::string> all;
    for (const auto& [name, node] : nodes_) all.push_back(name);
    return preempt(uid, all);
  }
  select(uid, nodes, [this, uid](const Selected& selected) {
    // kube-scheduler tries the pod again after a backoff where the extender fails.
    const Pod* asked = find(uid);
    if (!selected.answered || asked == nullptr) return end_cycle(uid, false);
    if (!selected.node.empty())
      return asked->group ? permit(uid, selected.node) : bind(uid, selected.node);
    if (asked->group) reject_unless_few_are_missing(*asked->group);
    preempt(uid, selected.refused);
  });
}

void Scheduler::end_cycle(const PodUid& uid, bool waits_for_event) {
  in_cycle_ = false;
  Pod* pod = find(uid);
  if (pod == nullptr) return;
  pod->busy = false;
  pod->waits_for_event = waits_for_event;
  pod->since = executor().now();
  back_off(*pod);
}

void Scheduler::back_off(Retry& retry) {
  const int doublings = std::min(retry.attempts++, kBackoffDoublings);
  retry.until = executor().now() + std::min(kBackoffFirst * (1 << doublings), kBackoffMax);
}

void Scheduler::back_off(Pod& pod) {
  back_off(pod.group && !pod.group->by_label ? groups_[pod.group->name] : pod.retry);
}

// --- the extender --------------------------------------------------------------------------------

void Scheduler::call(const std::string& verb, const PodUid& uid, std::string body, Duration timeout,
                     Answer done) {
  const auto answered = std::make_shared<bool>(false);
  const AnswerOf once = [this, answered, verb, uid, done = std::move(done)](
                            int status, const std::string& answer, int process) {
    if (std::exchange(*answered, true)) return;
    reports_.answered(uid, verb, status, answer, process);
    done(status, answer);
  };
  executor().after(timeout, callbacks_.wrap([once] { once(0, "", 0); }));
  extender_(verb, std::move(body),
            callbacks_.wrap([this, once](int status, const std::string& answer, int process) {
              executor().post(callbacks_.wrap(
                  [once, status, answer, process] { once(status, answer, process); }));
            }));
}

void Scheduler::select(const PodUid& uid, const std::vector<std::string>& nodes, OnSelected done) {
  const Json body = {
      {"Pod", Json::parse(pods_.at(uid).json)}, {"Nodes", nullptr}, {"NodeNames", nodes}};
  call("filter", uid, body.dump(), kFilterTimeout,
       [this, uid, done = std::move(done)](int status, const std::string& answer) {
         if (find(uid) == nullptr || status != 200) return done({});
         on_filtered(uid, answer, done);
       });
}

void Scheduler::on_filtered(const PodUid& uid, const std::string& body, const OnSelected& done) {
  const Json reply = read(body);
  std::vector<std::string> nodes;
  if (reply.contains("NodeNames") && reply["NodeNames"].is_array()) {
    nodes = reply["NodeNames"].get<std::vector<std::string>>();
  }
  if (nodes.size() > 1) return prioritize(uid, nodes, done);
  Selected selected{.answered = true, .node = {}, .refused = {}};
  if (nodes.size() == 1) selected.node = nodes.front();
  // Its own filters refuse some of them, too, where pods can be evicted.
  for (const char* list : {"FailedNodes", "FailedAndUnresolvableNodes"}) {
    if (!reply.contains(list) || !reply[list].is_object()) continue;
    for (const auto& [node, why] : reply[list].items()) selected.refused.push_back(node);
  }
  done(selected);
}

void Scheduler::prioritize(const PodUid& uid, const std::vector<std::string>& nodes,
                           const OnSelected& done) {
  const Json body = {
      {"Pod", Json::parse(pods_.at(uid).json)}, {"Nodes", nullptr}, {"NodeNames", nodes}};
  call("prioritize", uid, body.dump(), kFilterTimeout,
       [this, uid, nodes, done](int status, const std::string& answer) {
         if (find(uid) == nullptr) return done({});
         std::string best = nodes.front();
         std::int64_t most = -1;
         const Json scores = status == 200 ? read(answer) : Json::array();
         for (const Json& score : scores) {
           if (score.value("Score", std::int64_t{0}) <= most) continue;
           most = score.value("Score", std::int64_t{0});
           best = score.value("Host", "");
         }
         done({.answered = true, .node = best, .refused = {}});
       });
}

// The next scheduling cycle begins while the bind is under way.
void Scheduler::bind(const PodUid& uid, const std::string& node) {
  Pod& pod = pods_.at(uid);
  pod.assumed_node = node;
  in_cycle_ = false;
  const Json body = {{"PodName", pod.pod.metadata.name},
                     {"PodNamespace", pod.pod.metadata.name_space},
                     {"PodUID", uid.str()},
                     {"Node", node}};
  reports_.binds(uid, node);
  call("bind", uid, body.dump(), kBindTimeout,
       [this, uid, node](int status, const std::string& answer) {
         const Json reply = status == 200 ? read(answer) : Json();
         const bool bound = reply.is_object() && reply.value("Error", "").empty();
         if (bound) reports_.bound(uid, node);
         on_bound(uid, bound);
       });
}

void Scheduler::on_bound(const PodUid& uid, bool bound) {
  Pod* pod = find(uid);
  if (pod == nullptr) return;
  pod->busy = false;
  if (bound) return;
  pod->assumed_node.clear();
  back_off(*pod);
  if (pod->group && pod->group->by_label) {
    nominate(uid, "");
    reject_waiting(*pod->group);
  }
  wake_all();
}

// --- preemption ----------------------------------------------------------------------------------

// Where it does, kube-scheduler leaves its nomination as it is.
bool Scheduler::waits_for_victims(const Pod& pod) const {
  return reprieves_ && std::ranges::any_of(pods_, [&](const auto& other) {
           return !pod.pod.nominated_node.empty() &&
                  other.second.pod.node_name == pod.pod.nominated_node &&
                  other.second.pod.metadata.being_deleted && !other.second.pod.finished() &&
                  other.second.pod.priority < pod.pod.priority;
         });
}

// Proposes all pods of lower priority where their sums suffice, as kube-scheduler does before it
// reprieves some.
void Scheduler::preempt(const PodUid& uid, const std::vector<std::string>& nodes) {
  const Pod& pod = pods_.at(uid);
  if (waits_for_victims(pod) || pod.pod.never_preempts) return end_cycle(uid, true);
  Json proposed = Json::object();
  const auto with_room = reprieves_ ? nodes_with_room(uid) : std::vector<std::string>();
  for (const std::string& node : nodes) {
    if (!nodes_.contains(node) || std::ranges::count(with_room, node) > 0) continue;
    Json victims = Json::array();
    for (const auto& [other_uid, other] : pods_) {
      if (other.pod.node_name != node || other.pod.finished()) continue;
      if (other.pod.metadata.being_deleted || other.pod.priority >= pod.pod.priority) continue;
      victims.push_back({{"UID", other_uid.str()}});
    }
    if (!victims.empty()) proposed[node] = {{"Pods", victims}, {"NumPDBViolations", 0}};
  }
  if (proposed.empty()) {
    nominate(uid, "");
    return end_cycle(uid, true);
  }
  const Json body = {{"Pod", Json::parse(pod.json)},
                     {"NodeNameToVictims", nullptr},
                     {"NodeNameToMetaVictims", proposed}};
  call("preempt", uid, body.dump(), kFilterTimeout,
       [this, uid](int status, const std::string& answer) {
         on_preempted(uid, status == 200 ? read(answer) : Json());
         end_cycle(uid, true);
       });
}

void Scheduler::on_preempted(const PodUid& uid, const Json& reply) {
  if (find(uid) == nullptr || !reply.is_object() || !reply.contains("NodeNameToMetaVictims"))
    return;
  const Json& nodes = reply["NodeNameToMetaVictims"];
  if (!nodes.is_object() || nodes.empty()) return nominate(uid, "");
  for (const Json& victim : nodes.front()["Pods"]) evict(victim.value("UID", ""));
  nominate(uid, nodes.begin().key());
}

// The extender keeps what is freed on this node for the pod.
void Scheduler::nominate(const PodUid& uid, const std::string& node) {
  Pod& pod = pods_.at(uid);
  if (pod.nominated_node == node && pod.pod.nominated_node == node) return;
  pod.nominated_node = node;
  kube::Request request;
  request.method = kube::Method::kPatch;
  request.target = path_of(pod.pod) + "/status";
  request.content_type = "application/merge-patch+json";
  request.body =
      Json{{"status", {{"nominatedNodeName", node.empty() ? Json() : Json(node)}}}}.dump();
  link_.send(std::move(request), [](const kube::Response&) {});
}

void Scheduler::evict(const std::string& victim_uid) {
  const Pod* victim = find(PodUid(victim_uid));
  if (victim == nullptr) return;
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.target = path_of(victim->pod);
  request.content_type = "application/json";
  request.body = Json{{"preconditions", {{"uid", victim_uid}}}}.dump();
  link_.send(std::move(request), [](const kube::Response&) {});
}

}  // namespace mgpu::simulation
