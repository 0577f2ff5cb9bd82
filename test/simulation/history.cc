#include "test/simulation/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "common/contract/quantity.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/simulation/extender_process.h"
#include "test/simulation/extenders.h"
#include "test/simulation/invariants.h"
#include "test/simulation/node.h"
#include "test/simulation/scheduler.h"
#include "test/support/manual_executor.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

// After the last event: every fault has ended, and what is late has arrived.
constexpr Duration kFaultsEnd{40'000};
// kube-scheduler tries every pod again after five minutes.
constexpr Duration kQuiet{700'000};
// A start beside objects that are refused: the Lease, three touches, and their backoff.
constexpr Duration kRefusedStart{120'000};
// Every binding has a known outcome after this time.
constexpr Duration kSettledAfter{60'000};
// The Node object, by kubelet.
constexpr Duration kNodeCreatedAgain{2'000};
// The containers of a group that is bound start within it.
constexpr Duration kStartedAfter{3'000};

struct Amounts {
  int core;
  int memory;
  const char* cards = "";  // container-multiple-gpu
  int second_core = 0;     // of a second container, if it is not zero
};
constexpr std::array kRequests = {
    Amounts{10, 1'000},      Amounts{30, 8'000},
    Amounts{50, 16'000},     Amounts{70, 20'000},
    Amounts{100, 0},         Amounts{200, 0},
    Amounts{100, 30'000},    Amounts{35, 30'000},
    Amounts{60, 2'000},      Amounts{20, 20'000},
    Amounts{80, 8'000, "2"}, Amounts{5, 500},
    Amounts{100, 0, "", 30}, Amounts{40, 9'000, "", 60},
};
// MiB. With it some second containers fit on the card of the first, and others do not.
constexpr int kSecondMemory = 12'000;

Json container_json(const Contract& contract, const char* name, int core, int memory) {
  Json limits = {{contract.core_resource, std::to_string(core)}};
  if (memory > 0) limits[contract.memory_resource] = std::to_string(memory);
  return {{"name", name}, {"image", "i"}, {"resources", {{"limits", limits}}}};
}

Json pod_json(const Contract& contract, const std::string& name, const Event& event) {
  const Amounts& amounts = kRequests[static_cast<std::size_t>(event.what) % kRequests.size()];
  Json containers = Json::array({container_json(contract, "c", amounts.core, amounts.memory)});
  if (amounts.second_core > 0) {
    containers.push_back(container_json(contract, "second", amounts.second_core, kSecondMemory));
  }
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", name}, {"namespace", "d"}, {"annotations", Json::object()}}},
              {"spec", {{"priority", event.amount % 2}, {"containers", containers}}}};
  if (never_preempts(event)) pod["spec"]["preemptionPolicy"] = "Never";
  if (*amounts.cards != '\0') {
    pod["metadata"]["annotations"][contract.container_multiple_gpu] = amounts.cards;
  }
  return pod;
}

// What the pods of a group request: equal shares, whole cards, or a mixture. Some groups need more
// than the cluster has.
Json member_json(const Contract& contract, const std::string& name, const Event& event,
                 int member) {
  constexpr std::array kShares = {10, 25, 45, 15, 30};
  constexpr int kManyMembers = 8;
  int core = kShares[static_cast<std::size_t>(event.what / 8) % kShares.size()];
  if (members_of(event) > kManyMembers) core = members_of(event) > 2 * kManyMembers ? 4 : 15;
  const int kind = event.what / 64 % 4;
  if (kind == 0 && members_of(event) <= 4) core = 100;
  if (kind == 1 && member == 0) core = 100;
  const int memory = core == 100 ? 0 : core * 100;
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "d"}, {"annotations", Json::object()}}},
          {"spec",
           {{"priority", event.amount % 2},
            {"containers", Json::array({container_json(contract, "c", core, memory)})}}}};
}

std::string text_of(const Share& share) {
  return fmt::format("{} % and {} MiB", share.core.value(), share.memory.value());
}

std::string name_of(int pod) {
  return "p" + std::to_string(pod % kPodNames);
}

class World {
 public:
  World(std::uint64_t seed, std::string folder)
      : executor_(seed),
        folder_(std::move(folder)),
        setting_(setting_of(seed)),
        has_policies_(setting_.has_policies),
        invariants_(server_, contract_, has_policies_, setting_.is_calm),
        extenders_(
            server_, contract_, setting_,
            [this](std::string sentence) { invariants_.violate(std::move(sentence)); },
            [this](const std::string& event) { invariants_.report_event(event); }) {
    std::filesystem::remove_all(folder_);
    for (int n = 0; n < kNodes; ++n) {
      const std::string name = "n" + std::to_string(n);
      nodes_.push_back(std::make_unique<Node>(Node::World{server_, invariants_, contract_}, name,
                                              folder_ + "/" + name));
    }
    if (setting_.has_refused_objects) refuse_objects();
    start_scheduler();
  }
  ~World() {
    scheduler_.reset();
    nodes_.clear();
    std::filesystem::remove_all(folder_);
  }

  Outcome run(const std::vector<Event>& plan) {
    Outcome outcome;
    const Instant begin = executor_.now();
    const auto ended = [&] {
      outcome.digest = invariants_.digest();
      outcome.violation = invariants_.violation();
      outcome.at = executor_.now() - begin;
      return outcome.violation.has_value();
    };
    for (const Event& event : plan) {
      advance_to(begin + event.at);
      if (ended()) return outcome;
      happen(event);
    }
    advance_to(executor_.now() + kFaultsEnd);
    end_faults();
    if (setting_.has_refused_objects) check_start_beside_refused_objects();
    advance_to(executor_.now() + kQuiet);
    if (!invariants_.violation()) check_quiet();
    ended();
    outcome.scheduling_cycles = cycles_ + scheduler_->cycles();
    outcome.groups = invariants_.groups();
    outcome.groups_bound = invariants_.groups_bound();
    outcome.evicted = invariants_.evicted();
    outcome.groups_in_part = invariants_.groups_in_part();
    return outcome;
  }

 private:
  // Stops at the first violation.
  void advance_to(Instant end) {
    while (!invariants_.violation() && executor_.now() < end) {
      const auto next = executor_.until_next_timer();
      const Duration left = end - executor_.now();
      executor_.advance(next ? std::clamp(*next, Duration(1), left) : left);
    }
  }

  void refuse_objects() {
    const Json metadata = {{"name", "first"}, {"namespace", "a"}};
    const Json spec = {{"nodeName", "elsewhere"},
                       {"containers", {{{"name", "c"}, {"image", "i"}}}}};
    call(kube::Method::kPost, "/api/v1/namespaces/a/pods",
         {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}});
    extenders_.faults().refuses_objects = true;
  }

  void start_scheduler() {
    scheduler_ = std::make_unique<Scheduler>(
        server_, scheduler_faults_, contract_,
        [this](const std::string& verb, std::string body, const Extenders::Answered& done) {
          extenders_.call(verb, std::move(body), done);
        },
        Scheduler::Reports{
            .binds = [this](const PodUid& uid,
                            const std::string& node) { invariants_.note_binding(uid, node); },
            .bound = [this](const PodUid& uid,
                            const std::string& node) { invariants_.report_bound(uid, node); },
            .answered =
                [this](const PodUid& uid, const std::string& verb, int status,
                       const std::string& body, int process) {
                  const ExtenderProcess* leader = extenders_.find(Extenders::Which::kLeader);
                  const bool late = leader != nullptr && leader->watches_are_late();
                  invariants_.report_answer(uid, {verb, status, body, process, late});
                }},
        setting_.preempts_by_card);
  }

  kube::Response call(kube::Method method, const std::string& target, const Json& body,
                      const std::string& type = "application/json") {
    kube::Request request;
    request.method = method;
    request.target = target;
    request.body = body.dump();
    request.content_type = type;
    return server_.call(request);
  }
  std::string path_of(int pod) { return "/api/v1/namespaces/d/pods/" + name_of(pod); }
  std::optional<kube::Pod> pod_at(int pod) { return pod_named(name_of(pod)); }
  std::optional<kube::Pod> pod_named(const std::string& name) {
    const auto response = server_.call(kube::get_pod({"d", name}));
    if (!response.ok()) return std::nullopt;
    return kube::read_pod(response.body).value();
  }
  Node& node_at(int node) { return *nodes_[static_cast<std::size_t>(node % kNodes)]; }

  // --- events ------------------------------------------------------------------------------------

  void happen(const Event& event) {
    switch (event.action) {
      case Action::kCreatePod:
      case Action::kDeletePod:
      case Action::kRecreatePod:
      case Action::kFinishPod:
      case Action::kEditCards:
      case Action::kEditMultipleGpu:
      case Action::kCreateOnNode:
      case Action::kCreateForged:
        return act_as_user(event);
      case Action::kCreateGroup:
      case Action::kDeleteGroup:
      case Action::kDeleteMember:
        return act_on_group(event);
      case Action::kKillExtender:
        return kill_extender();
      case Action::kReplaceExtender:
        return replace_extender(event);
      case Action::kKillScheduler:
        cycles_ += scheduler_->cycles();
        invariants_.note_scheduler_killed();
        extenders_.move_scheduler(event.what);
        return start_scheduler();
      case Action::kKillPlugin:
        return node_at(event.who).kill_plugin();
      case Action::kRestartKubelet:
        return node_at(event.who).restart_kubelet();
      case Action::kPowerLoss:
        if (exchanges_cards(event)) exchange_cards(node_at(event.who));
        return node_at(event.who).lose_power();
      case Action::kReplacePlugin:
        return node_at(event.who).replace_plugin(successor_ends(event), long_stop_of(event));
      case Action::kCrashContainers:
        return node_at(event.who).crash_containers(event.what);
      case Action::kEndMps:
        return node_at(event.who).end_mps(event.what % kCardsPerNode, failure_of(event));
      case Action::kRestartServices:
        return node_at(event.who).restart_services(event.what, failure_of(event));
      case Action::kPutSpecBack:
        return node_at(event.who).put_spec_back();
      case Action::kDiskFails:
        return node_at(event.who).fail_disk(failure_of(event));
      case Action::kCardFails:
        invariants_.note_cards_changed(node_at(event.who).name());
        return node_at(event.who).set_card_healthy(event.what % kCardsPerNode, false);
      case Action::kCardRecovers:
        return node_at(event.who).set_card_healthy(event.what % kCardsPerNode, true);
      case Action::kRemoveNode:
        invariants_.note_cards_changed(node_at(event.who).name());
        call(kube::Method::kDelete, "/api/v1/nodes/" + node_at(event.who).name(), Json::object());
        executor_.after(kNodeCreatedAgain, [&node = node_at(event.who)] { node.create_object(); });
        return;
      case Action::kFault:
      case Action::kFaultOfBind:
      case Action::kBreakWatches:
      case Action::kLagWatches:
      case Action::kCompact:
      case Action::kRelist:
      case Action::kLateBind:
      case Action::kFreeze:
      case Action::kPauseVm:
        return disturb(event);
      default:
        return disturb_replicas(event);
    }
  }

  void act_as_user(const Event& event) {
    const int pod = event.who;
    Json json = pod_json(contract_, name_of(pod), event);
    const std::string node = "n" + std::to_string(event.what % kNodes);
    const std::string collection = "/api/v1/namespaces/d/pods";
    switch (event.action) {
      case Action::kDeletePod:
        call(kube::Method::kDelete, path_of(pod), {{"gracePeriodSeconds", 30}});
        return;
      case Action::kRecreatePod:
        if (recreates_all(event)) return recreate_pods(node_at(event.who), failure_of(event));
        call(kube::Method::kDelete, path_of(pod), {{"gracePeriodSeconds", 0}});
        break;
      case Action::kFinishPod:
        if (const auto found = pod_at(pod); found && !found->node_name.empty()) {
          node_at(found->node_name.back() - '0').finish(found->uid());
        }
        return;
      case Action::kEditCards:
        if (has_policies_ || is_bound_lately(pod)) return;
        return annotate(pod, contract_.index_key("c"), std::to_string(event.what % kCardsPerNode));
      case Action::kEditMultipleGpu:
        note_edited(pod);
        return annotate(pod, contract_.container_multiple_gpu,
                        std::to_string(1 + event.what % kCardsPerNode));
      case Action::kCreateForged:
        if (has_policies_) return;
        json["metadata"]["annotations"][contract_.assumed] = "true";
        json["metadata"]["annotations"][contract_.index_key("c")] =
            std::to_string(event.amount % kCardsPerNode);
        [[fallthrough]];
      case Action::kCreateOnNode:
        if (has_policies_) return;
        json["spec"]["nodeName"] = node;
        break;
      default:
        break;
    }
    call(kube::Method::kPost, collection, json);
  }

  void act_on_group(const Event& event) {
    if (event.action == Action::kCreateGroup) return create_group(event);
    if (groups_.empty()) return;
    const auto group = groups_.begin() + event.who % std::ssize(groups_);
    if (event.action == Action::kDeleteMember) {
      const auto member = static_cast<std::size_t>(event.what) % group->size();
      return delete_pod_named((*group)[member]);
    }
    for (const std::string& pod : *group) delete_pod_named(pod);
    groups_.erase(group);
  }

  void delete_pod_named(const std::string& name) {
    call(kube::Method::kDelete, "/api/v1/namespaces/d/pods/" + name, {{"gracePeriodSeconds", 30}});
  }

  // Names are not used again.
  void create_group(const Event& event) {
    const std::string name = "g" + std::to_string(groups_created_++);
    std::vector<std::string> pods;
    for (int member = 0; member < members_of(event); ++member) {
      pods.push_back(name + "-" + std::to_string(member));
      Json pod = member_json(contract_, pods.back(), event, member);
      pod["metadata"]["annotations"][kMinCount] = std::to_string(min_count_of(event));
      if (never_preempts(event)) pod["spec"]["preemptionPolicy"] = "Never";
      if (is_by_label(event)) {
        pod["metadata"]["labels"][kGroupLabel] = name;
      } else {
        pod["spec"]["schedulingGroup"] = {{"podGroupName", name}};
      }
      call(kube::Method::kPost, "/api/v1/namespaces/d/pods", pod);
    }
    group_pods_.insert(group_pods_.end(), pods.begin(), pods.end());
    groups_.push_back(std::move(pods));
  }

  // The outcome of its binding may not be known yet: then the extender cannot distinguish an edit
  // from the binding of another attempt.
  bool is_bound_lately(int pod) {
    const auto found = pod_at(pod);
    const auto since = found ? invariants_.bound_at(found->uid()) : std::nullopt;
    return since && executor_.now() - *since < kSettledAfter;
  }

  // The plugin refuses a pod whose annotation does not match its cards.
  void note_edited(int pod) {
    if (const auto found = pod_at(pod)) edited_.insert(found->uid());
  }

  // The new pods have the requests of the old ones. They are scheduled in another order, so that
  // many get other cards.
  void recreate_pods(Node& node, Duration plugin_lags) {
    if (Link* link = node.plugin_link()) link->lag_watches(plugin_lags);
    std::vector<Json> pods;
    for (int pod = kPodNames - 1; pod >= 0; --pod) {
      const auto found = pod_at(pod);
      if (!found || found->node_name != node.name()) continue;
      pods.push_back(pod_like(*found, server_.call(kube::get_pod(found->ref())).body));
      call(kube::Method::kDelete, path_of(pod), {{"gracePeriodSeconds", 0}});
    }
    for (const Json& pod : pods) call(kube::Method::kPost, "/api/v1/namespaces/d/pods", pod);
  }

  Json pod_like(const kube::Pod& pod, const std::string& json) const {
    Json made = Json::parse(json);
    made["metadata"] = {{"name", pod.metadata.name},
                        {"namespace", pod.metadata.name_space},
                        {"annotations", Json::object()}};
    const auto cards = pod.metadata.annotations.find(contract_.container_multiple_gpu);
    if (cards != pod.metadata.annotations.end()) {
      made["metadata"]["annotations"][cards->first] = cards->second;
    }
    made["spec"].erase("nodeName");
    made.erase("status");
    return made;
  }

  // Only the records on the disk of the node tell the plugin then which cards the pods had.
  void exchange_cards(const Node& node) {
    if (has_policies_) return;
    for (int pod = 0; pod < kPodNames; ++pod) {
      const auto found = pod_at(pod);
      if (!found || found->node_name != node.name() || is_bound_lately(pod)) continue;
      for (const kube::Container& container : found->containers) {
        const std::string key = contract_.index_key(container.name);
        const auto at = found->metadata.annotations.find(key);
        if (at == found->metadata.annotations.end()) continue;
        if (at->second == "0") annotate(pod, key, "1");
        if (at->second == "1") annotate(pod, key, "0");
      }
    }
  }

  void annotate(int pod, const std::string& key, const std::string& value) {
    call(kube::Method::kPatch, path_of(pod), {{"metadata", {{"annotations", {{key, value}}}}}},
         "application/merge-patch+json");
  }

  // --- faults ------------------------------------------------------------------------------------

  // Without the policies a restarted extender would count the cards of edited annotations.
  void kill_extender() {
    if (has_policies_) extenders_.kill(Extenders::Which::kLeader);
  }

  void replace_extender(const Event& event) {
    if (!has_policies_) return;
    extenders_.replace(kind_of(event), stop_of(event));
  }

  void create_pod(const Event& event) {
    call(kube::Method::kPost, "/api/v1/namespaces/d/pods",
         pod_json(contract_, name_of(event.who), event));
  }

  // The binding of a new pod may happen after the extender has started again.
  void kill_after_late_bind(const Event& event) {
    extenders_.faults().of_binds.push_front(Fault::kServedLate);
    create_pod(event);
    executor_.after(Duration(50 * (1 + event.amount)), [this] { kill_extender(); });
  }

  FaultQueue& faults_of(int client) {
    client %= kClients;
    if (client == 0) return extenders_.faults();
    if (client == 1) return scheduler_faults_;
    Node& node = node_at(client / 2 - 1);
    return client % 2 == 0 ? node.plugin_faults() : node.kubelet_faults();
  }
  // Null for clients that are no extender, and where its process has ended.
  ExtenderProcess* extender_of(int client) {
    if (client == kFollowerClient) return extenders_.find(Extenders::Which::kFollower);
    return client % kClients == 0 ? extenders_.find(Extenders::Which::kLeader) : nullptr;
  }
  Link* link_of(int client) {
    if (ExtenderProcess* extender = extender_of(client)) return &extender->link();
    client %= kClients;
    if (client == 0) return nullptr;
    if (client == 1) return &scheduler_->link();
    Node& node = node_at(client / 2 - 1);
    return client % 2 == 0 ? node.plugin_link() : node.kubelet_link();
  }

  void disturb(const Event& event) {
    const Fault fault = fault_of(event);
    switch (event.action) {
      case Action::kFault:
        for (int i = 0; i <= event.amount; ++i) faults_of(event.who).of_any.push_back(fault);
        return;
      case Action::kFaultOfBind:
        for (int i = 0; i <= event.amount % 3; ++i) extenders_.faults().of_binds.push_back(fault);
        return;
      case Action::kRelist:
        if (extender_of(0) == nullptr) return;
        server_.compact();
        for (int i = 0; i < 2; ++i) extenders_.faults().of_any.push_back(Fault::kAnswerSlow);
        return extender_of(0)->link().break_watches();
      case Action::kLateBind:
        return kill_after_late_bind(event);
      case Action::kBreakWatches:
        if (Link* link = link_of(event.who)) link->break_watches();
        return;
      case Action::kLagWatches:
        if (Link* link = link_of(event.who)) link->lag_watches(failure_of(event));
        return;
      case Action::kFreeze:
        return freeze(event.who, stop_of(event));
      case Action::kPauseVm:
        return pause(event.who, stop_of(event));
      case Action::kCompact:
        server_.compact();
        return;
      default:
        return;
    }
  }

  static ExtenderProcess::Stop kind_of(const Event& event) {
    return pauses(event) ? ExtenderProcess::Stop::kPaused : ExtenderProcess::Stop::kFrozen;
  }

  void disturb_replicas(const Event& event) {
    const auto which =
        is_of_follower(event) ? Extenders::Which::kFollower : Extenders::Which::kLeader;
    const Duration time = long_stop_of(event);
    ExtenderProcess* process = extenders_.find(which);
    switch (event.action) {
      case Action::kKillReplica:
        return extenders_.kill(which);
      case Action::kKillReplicas:
        return extenders_.kill_all();
      case Action::kShutDownReplica:
        return extenders_.shut_down(which);
      case Action::kStopReplica:
        if (process != nullptr) process->stop(kind_of(event), time);
        return;
      case Action::kStopLeaderInBind:
        if (ExtenderProcess* leader = extender_of(0))
          leader->stop_at_next_bind(kind_of(event), time);
        return create_pod(event);
      case Action::kHangLeader:
        if (ExtenderProcess* leader = extender_of(0))
          leader->stop(ExtenderProcess::Stop::kHung, time);
        return;
      case Action::kHoldBind:
        extenders_.hold_next_bind(time, kill_after(event));
        return create_pod(event);
      case Action::kCutFromApi:
        return extenders_.cut_from_api(which, cut_of(event), time);
      case Action::kCutFromScheduler:
        return extenders_.cut_from_scheduler(which, time);
      case Action::kMoveClock:
        return extenders_.move_clock(which, std::chrono::hours(event.what % 2 == 0 ? 1 : -1));
      case Action::kMisroute:
        return extenders_.misroute(failure_of(event));
      default:
        return;
    }
  }

  void freeze(int client, Duration time) {
    if (ExtenderProcess* extender = extender_of(client)) {
      return extender->stop(ExtenderProcess::Stop::kFrozen, time);
    }
    client %= kClients;
    if (client == 1) invariants_.note_scheduler_stopped(time);
    if (client >= 2 && client % 2 == 1) return node_at(client / 2 - 1).freeze_kubelet(time);
    if (Link* link = link_of(client)) link->executor().freeze(time);
  }
  // Plugin and kubelet have the same machine.
  void pause(int client, Duration time) {
    if (ExtenderProcess* extender = extender_of(client)) {
      return extender->stop(ExtenderProcess::Stop::kPaused, time);
    }
    client %= kClients;
    if (client == 1) invariants_.note_scheduler_stopped(time);
    if (client >= 2) return node_at(client / 2 - 1).pause(time);
    if (Link* link = link_of(client)) link->executor().pause(time);
  }

  // Faults that no request has met yet do not happen any more, and cards are healthy.
  void end_faults() {
    for (int client = 0; client < kClients; ++client) {
      faults_of(client) = FaultQueue();
    }
    for (const auto& node : nodes_) {
      invariants_.note_cards_changed(node->name());
      for (int card = 0; card < kCardsPerNode; ++card) node->set_card_healthy(card, true);
    }
  }

  // Objects that the API server goes on to refuse hold up no start.
  void check_start_beside_refused_objects() {
    extenders_.faults().refuses_objects = true;
    kill_extender();
    advance_to(executor_.now() + kRefusedStart);
    if (invariants_.violation()) return;
    if (const auto problem = extenders_.problem_after_quiet())
      invariants_.violate(*problem + ", and objects are refused");
    end_faults();
  }

  // --- after quiet -------------------------------------------------------------------------------

  // Waits until no pod is being bound or started, for a while: pending groups are tried again also
  // after quiet.
  void wait_for_late_group() {
    constexpr int kTries = 5;
    const auto is_started = [](const auto& node) { return node->not_started().empty(); };
    for (int i = 0; i < kTries; ++i) {
      const bool decides = extenders_.find(Extenders::Which::kLeader) != nullptr;
      if (!decides || invariants_.violation()) return;
      const bool assumed = extender().ledger().reader().counts().assumed > 0;
      if (!assumed && std::ranges::all_of(nodes_, is_started)) return;
      advance_to(executor_.now() + kStartedAfter);
    }
  }

  void check_quiet() {
    wait_for_late_group();
    if (auto problem = extenders_.problem_after_quiet()) {
      return invariants_.violate(*std::move(problem));
    }
    const extender::Counts counts = extender().ledger().reader().counts();
    if (counts.assumed > 0) {
      return invariants_.violate(
          fmt::format("{} claims are still assumed after quiet", counts.assumed));
    }
    check_kept(counts);
    check_nodes();
    invariants_.check_groups();
    ExtenderProcess fresh(server_, no_faults_, contract_,
                          {.identity = "observer", .is_observer = true});
    advance_to(executor_.now() + Duration(1'000));
    if (!fresh.ready()) return invariants_.violate("a fresh extender is not ready after quiet");
    // Without the policies a fresh ledger has the edited annotations.
    if (has_policies_) {
      check_equal("the ledger", Extenders::Which::kLeader, fresh);
      check_equal("the ledger of the follower", Extenders::Which::kFollower, fresh);
    }
    if (!invariants_.violation()) check_bound(has_policies_ ? fresh : extender());
    if (setting_.replicas == 1) return;
    for (const auto end :
         {Extenders::End::kShutDown, Extenders::End::kKilled, Extenders::End::kHung}) {
      check_failover(end);
      advance_to(executor_.now() + kSettledAfter);
    }
  }

  // The other replica decides soon.
  void check_failover(Extenders::End end) {
    if (invariants_.violation()) return;
    const int leader = extenders_.leader();
    const Duration limit = extenders_.failover_after(end);
    switch (end) {
      case Extenders::End::kShutDown:
        extenders_.shut_down(Extenders::Which::kLeader);
        break;
      case Extenders::End::kKilled:
        extenders_.kill(Extenders::Which::kLeader);
        break;
      case Extenders::End::kHung:
        extender().stop(ExtenderProcess::Stop::kHung, 2 * limit);
    }
    advance_to(executor_.now() + limit);
    if (extenders_.decides_without(leader)) return;
    invariants_.violate(fmt::format("no replica decides {} s after the leader {}",
                                    std::chrono::duration<double>(limit).count(), end_text(end)));
  }

  static const char* end_text(Extenders::End end) {
    if (end == Extenders::End::kShutDown) return "was shut down";
    return end == Extenders::End::kKilled ? "was killed" : "hangs";
  }

  ExtenderProcess& extender() { return *extenders_.find(Extenders::Which::kLeader); }

  // The extender has all cards, and no pod that has gone. (The expected placement of a pod that was
  // deleted after filter is removed by the next decision, which may never come.)
  void check_kept(const extender::Counts& counts) {
    std::size_t bound = 0;
    std::vector<std::string> names = group_pods_;
    for (int pod = 0; pod < kPodNames; ++pod) names.push_back(name_of(pod));
    for (const std::string& name : names) {
      const auto found = pod_named(name);
      if (found && !found->node_name.empty() && !found->finished()) ++bound;
    }
    constexpr std::size_t kCards = std::size_t{kNodes} * kCardsPerNode;
    if (counts.bound == bound && counts.nodes == kNodes && counts.cards == kCards) return;
    invariants_.violate(fmt::format(
        "after quiet the ledger has {} bound pods, {} nodes and {} cards; {} pods are bound, and "
        "{} nodes with {} cards exist",
        counts.bound, counts.nodes, counts.cards, bound, kNodes, kCards));
  }

  // Each node offers all of its cards, and runs its pods.
  void check_nodes() {
    for (const auto& node : nodes_) {
      const auto read = kube::read_node(server_.call(kube::get_node(NodeName(node->name()))).body);
      const auto allocatable = [&](const std::string& resource) {
        const auto at = read->allocatable.find(resource);
        return at == read->allocatable.end() ? 0 : *parse_whole_quantity(resource, at->second);
      };
      if (!read || allocatable(contract_.core_resource) != kCardsPerNode * kWholeCard.value() ||
          allocatable(contract_.memory_resource) != kCardsPerNode * test::kCardMemory) {
        invariants_.violate("node " + node->name() + " does not offer all of its cards");
      }
      for (const PodUid& uid : node->not_started()) {
        if (!has_policies_ || edited_.contains(uid)) continue;
        invariants_.violate(
            fmt::format("the pod with uid {} does not run on node {}", uid.str(), node->name()));
      }
    }
  }

  // A pending group is tried again meanwhile, and may be bound.
  void check_equal(const char* name, Extenders::Which which, ExtenderProcess& fresh) {
    constexpr int kTries = 5;
    std::optional<std::string> difference;
    for (int i = 0; i < kTries; ++i) {
      difference = difference_of(name, extenders_.find(which)->ledger(), fresh.ledger());
      if (!difference) return;
      advance_to(executor_.now() + Duration(700));
    }
    invariants_.violate(*difference);
  }

  std::optional<std::string> difference_of(const char* name, const extender::Ledger& ledger,
                                           const extender::Ledger& fresh) const {
    for (const auto& node : nodes_) {
      const auto held = ledger.reader().node(NodeName(node->name()));
      const auto expected = fresh.reader().node(NodeName(node->name()));
      if (!held || !expected) return fmt::format("node {} is not in {}", node->name(), name);
      for (std::size_t i = 0; i < expected->node.cards.size(); ++i) {
        if (i < held->node.cards.size() &&
            held->node.cards[i].used == expected->node.cards[i].used) {
          continue;
        }
        return fmt::format(
            "{} counts {} of card {} of node {}, and a fresh one {}", name,
            i < held->node.cards.size() ? text_of(held->node.cards[i].used) : "nothing", i,
            node->name(), text_of(expected->node.cards[i].used));
      }
    }
    return std::nullopt;
  }

  // Every pod that fits a node is bound. kube-scheduler compares the sums of the node, and the
  // extender the cards.
  void check_bound(ExtenderProcess& extender) {
    for (int pod = 0; pod < kPodNames; ++pod) {
      const auto found = pod_at(pod);
      if (!found || !found->node_name.empty() || found->finished()) continue;
      const auto names = scheduler_->nodes_with_room(found->uid());
      if (names.empty()) continue;
      const auto text = server_.call(kube::get_pod({"d", name_of(pod)})).body;
      const Json body = {{"Pod", Json::parse(text)}, {"Nodes", nullptr}, {"NodeNames", names}};
      Json read;
      extender.call("filter", body.dump(), [&](int status, const std::string& answer) {
        if (status == 200) read = Json::parse(answer, nullptr, false);
      });
      advance_to(executor_.now() + Duration(1'000));
      if (!read.is_object() || !read["NodeNames"].is_array()) {
        return invariants_.violate("filter does not answer after quiet");
      }
      if (read["NodeNames"].empty()) continue;
      return invariants_.violate(fmt::format("pod {} fits node {} and is not bound", name_of(pod),
                                             read["NodeNames"].front().get<std::string>()));
    }
  }

  test::ManualExecutor executor_;
  const std::string folder_;
  const Setting setting_;
  const bool has_policies_;
  const Contract contract_ = Contract::for_domain(kDefaultResourceDomain).value();
  kube::MemoryApiServer server_{executor_, {}};
  Invariants invariants_;
  FaultQueue scheduler_faults_;
  FaultQueue no_faults_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Extenders extenders_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::vector<std::string>> groups_;  // the names of the pods of each
  std::vector<std::string> group_pods_;           // also of those that were deleted
  int groups_created_ = 0;
  std::set<PodUid> edited_;  // container-multiple-gpu
  int cycles_ = 0;           // of schedulers that were killed
};

}  // namespace

Outcome run_history(const std::vector<Event>& plan, std::uint64_t seed, const std::string& folder) {
  return World(seed, folder).run(plan);
}

namespace {

// Two violations are the same if they differ only in numbers, uids and the pods that they list.
std::string kind_of(const std::optional<std::string>& violation) {
  std::string kind = violation.value_or("");
  kind = kind.substr(0, kind.find(", by the pods"));
  if (const auto uid = kind.find("uid "); uid != std::string::npos) {
    kind.erase(uid + 4, kind.find(' ', uid + 4) - (uid + 4));
  }
  std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
  return kind;
}

}  // namespace

// Removes parts of the plan as long as the same promise is still broken: half of it at first,
// single events at last.
std::vector<Event> shrink(std::vector<Event> plan, std::uint64_t seed, const std::string& folder,
                          int runs_max) {
  const std::string kind = kind_of(run_history(plan, seed, folder).violation);
  int runs = 0;
  for (std::size_t part = plan.size() / 2; part > 0; part /= 2) {
    for (std::size_t at = 0; at < plan.size() && runs < runs_max;) {
      std::vector<Event> fewer = plan;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(first, first + std::min<std::ptrdiff_t>(
                                     std::ssize(plan) - static_cast<std::ptrdiff_t>(at),
                                     static_cast<std::ptrdiff_t>(part)));
      ++runs;
      if (kind_of(run_history(fewer, seed, folder).violation) == kind) {
        plan = std::move(fewer);
      } else {
        at += part;
      }
    }
  }
  return plan;
}

}  // namespace mgpu::simulation
