#include "test/simulation/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/kube/object_json.h"
#include "common/kube/request.h"
#include "test/simulation/extender_process.h"
#include "test/simulation/node.h"
#include "test/simulation/scheduler.h"
#include "test/simulation/truth.h"
#include "test/support/manual_executor.h"

namespace mgpu::simulation {
namespace {

using Json = nlohmann::json;

constexpr Duration kRestartMax{3'000};
// After the last event: every fault has ended, and what is late has arrived.
constexpr Duration kFaultsEnd{40'000};
// kube-scheduler tries every pod again after five minutes.
constexpr Duration kQuiet{700'000};
// Every binding has a known outcome after this time.
constexpr Duration kSettledAfter{60'000};
constexpr int kClients = 2 + 2 * kNodes;

struct Amounts {
  int core;
  int memory;
  const char* cards = "";  // container-multiple-gpu
};
constexpr std::array kRequests = {
    Amounts{10, 1'000}, Amounts{30, 8'000},  Amounts{50, 16'000},     Amounts{70, 20'000},
    Amounts{100, 0},    Amounts{200, 0},     Amounts{100, 30'000},    Amounts{35, 30'000},
    Amounts{60, 2'000}, Amounts{20, 20'000}, Amounts{80, 8'000, "2"}, Amounts{5, 500},
};

Json pod_json(const Contract& contract, const std::string& name, const Event& event) {
  const Amounts& amounts = kRequests[static_cast<std::size_t>(event.what) % kRequests.size()];
  Json limits = {{contract.core_resource, std::to_string(amounts.core)}};
  if (amounts.memory > 0) limits[contract.memory_resource] = std::to_string(amounts.memory);
  const Json container = {{"name", "c"}, {"image", "i"}, {"resources", {{"limits", limits}}}};
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", name}, {"namespace", "d"}, {"annotations", Json::object()}}},
              {"spec", {{"priority", event.amount % 2}, {"containers", Json::array({container})}}}};
  if (*amounts.cards != '\0') {
    pod["metadata"]["annotations"][contract.container_multiple_gpu] = amounts.cards;
  }
  return pod;
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
        has_policies_(seed % 2 == 0),
        truth_(server_, contract_) {
    std::filesystem::remove_all(folder_);
    for (int n = 0; n < kNodes; ++n) {
      const std::string name = "n" + std::to_string(n);
      nodes_.push_back(std::make_unique<Node>(Node::World{server_, truth_, contract_}, name,
                                              folder_ + "/" + name));
    }
    start_extender();
    start_scheduler();
  }
  ~World() {
    scheduler_.reset();
    extender_.reset();
    nodes_.clear();
    std::filesystem::remove_all(folder_);
  }

  Outcome run(const std::vector<Event>& plan) {
    Outcome outcome;
    const Instant begin = executor_.now();
    const auto ended = [&] {
      outcome.violation = truth_.violation();
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
    advance_to(executor_.now() + kQuiet);
    if (!truth_.violation()) check_quiet();
    ended();
    outcome.scheduling_cycles = cycles_ + scheduler_->cycles();
    return outcome;
  }

 private:
  // Stops at the first violation.
  void advance_to(Instant end) {
    while (!truth_.violation() && executor_.now() < end) {
      const auto next = executor_.until_next_timer();
      const Duration left = end - executor_.now();
      executor_.advance(next ? std::clamp(*next, Duration(1), left) : left);
    }
  }

  void start_extender() {
    extender_ = std::make_unique<ExtenderProcess>(server_, extender_fates_, contract_,
                                                  "extender-" + std::to_string(extenders_++));
  }
  void start_scheduler() {
    scheduler_ = std::make_unique<Scheduler>(
        server_, scheduler_fates_, contract_,
        [this](const std::string& verb, std::string body, Scheduler::Answer done) {
          if (extender_) return extender_->call(verb, std::move(body), std::move(done));
          done(0, "");
        });
  }
  Duration restart_delay() {
    return Duration(
        1 + static_cast<int>(executor_.random() * static_cast<double>(kRestartMax.count())));
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
  std::optional<kube::Pod> pod_at(int pod) {
    const auto response = server_.call(kube::get_pod({"d", name_of(pod)}));
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
      case Action::kKillExtender:
        return kill_extender();
      case Action::kKillScheduler:
        cycles_ += scheduler_->cycles();
        return start_scheduler();
      case Action::kKillPlugin:
        return node_at(event.who).kill_plugin();
      case Action::kRestartKubelet:
        return node_at(event.who).restart_kubelet();
      case Action::kPowerLoss:
        return node_at(event.who).lose_power();
      case Action::kDiskFails:
        node_at(event.who).set_disk_failing(true);
        executor_.after(Duration(1'000 * event.amount),
                        [&node = node_at(event.who)] { node.set_disk_failing(false); });
        return;
      case Action::kCardFails:
        return node_at(event.who).set_card_healthy(event.what % kCardsPerNode, false);
      case Action::kCardRecovers:
        return node_at(event.who).set_card_healthy(event.what % kCardsPerNode, true);
      case Action::kRemoveNode:
        call(kube::Method::kDelete, "/api/v1/nodes/" + node_at(event.who).name(), Json::object());
        executor_.after(restart_delay(), [&node = node_at(event.who)] { node.create_object(); });
        return;
      case Action::kFault:
      case Action::kFaultOfBind:
      case Action::kBreakWatches:
      case Action::kLagWatches:
      case Action::kCompact:
      case Action::kRelist:
      case Action::kLateBind:
        return disturb(event);
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

  // The outcome of its binding may not be known yet: then the extender cannot distinguish an edit
  // from the binding of another attempt.
  bool is_bound_lately(int pod) {
    const auto found = pod_at(pod);
    const auto since = found ? truth_.bound_at(found->uid()) : std::nullopt;
    return since && executor_.now() - *since < kSettledAfter;
  }

  void annotate(int pod, const std::string& key, const std::string& value) {
    call(kube::Method::kPatch, path_of(pod), {{"metadata", {{"annotations", {{key, value}}}}}},
         "application/merge-patch+json");
  }

  // --- faults ------------------------------------------------------------------------------------

  // Without the policies a restarted extender would count the cards of edited annotations.
  void kill_extender() {
    if (!has_policies_) return;
    extender_.reset();
    executor_.after(restart_delay(), [this] {
      if (!extender_) start_extender();
    });
  }

  // The binding of a new pod may happen after the extender has started again.
  void kill_after_late_bind(const Event& event) {
    extender_fates_.of_binds.push_front(Fate::kServedLate);
    call(kube::Method::kPost, "/api/v1/namespaces/d/pods",
         pod_json(contract_, name_of(event.who), event));
    executor_.after(Duration(50 * (1 + event.amount)), [this] { kill_extender(); });
  }

  Fates& fates_of(int client) {
    client %= kClients;
    if (client == 0) return extender_fates_;
    if (client == 1) return scheduler_fates_;
    Node& node = node_at(client / 2 - 1);
    return client % 2 == 0 ? node.plugin_fates() : node.kubelet_fates();
  }
  Link* link_of(int client) {
    client %= kClients;
    if (client == 0) return extender_ ? &extender_->link() : nullptr;
    if (client == 1) return &scheduler_->link();
    Node& node = node_at(client / 2 - 1);
    return client % 2 == 0 ? node.plugin_link() : node.kubelet_link();
  }

  void disturb(const Event& event) {
    const Fate fate = fate_of(event);
    switch (event.action) {
      case Action::kFault:
        for (int i = 0; i <= event.amount; ++i) fates_of(event.who).of_any.push_back(fate);
        return;
      case Action::kFaultOfBind:
        for (int i = 0; i <= event.amount % 3; ++i) extender_fates_.of_binds.push_back(fate);
        return;
      case Action::kRelist:
        if (!extender_) return;
        server_.compact();
        for (int i = 0; i < 2; ++i) extender_fates_.of_any.push_back(Fate::kAnswerSlow);
        return extender_->link().break_watches();
      case Action::kLateBind:
        return kill_after_late_bind(event);
      case Action::kBreakWatches:
        if (Link* link = link_of(event.who)) link->break_watches();
        return;
      case Action::kLagWatches:
        if (Link* link = link_of(event.who)) link->set_watch_lag(Duration(1'000 * event.amount));
        executor_.after(Duration(1'000 * event.amount), [this, who = event.who] {
          if (Link* link = link_of(who)) link->set_watch_lag(Duration(0));
        });
        return;
      case Action::kCompact:
        server_.compact();
        return;
      default:
        return;
    }
  }

  // Faults that no request has met yet do not happen any more, and cards are healthy.
  void end_faults() {
    for (int client = 0; client < kClients; ++client) {
      fates_of(client) = Fates();
      if (Link* link = link_of(client)) link->set_watch_lag(Duration(0));
    }
    for (const auto& node : nodes_) {
      node->set_disk_failing(false);
      for (int card = 0; card < kCardsPerNode; ++card) node->set_card_healthy(card, true);
    }
  }

  // --- after quiet -------------------------------------------------------------------------------

  void check_quiet() {
    if (!extender_->ready()) return truth_.violate("the extender is not ready after quiet");
    const extender::Counts counts = extender_->ledger().counts();
    if (counts.assumed > 0) {
      return truth_.violate(fmt::format("{} claims are still assumed after quiet", counts.assumed));
    }
    check_kept(counts);
    ExtenderProcess fresh(server_, no_faults_, contract_, "observer",
                          ExtenderProcess::Role::kObserver);
    advance_to(executor_.now() + Duration(1'000));
    // Without the policies a fresh ledger has the edited annotations.
    if (has_policies_) compare(fresh.ledger());
    if (!truth_.violation()) check_bound(has_policies_ ? fresh : *extender_);
  }

  // The extender keeps nothing of what has gone.
  void check_kept(const extender::Counts& counts) {
    std::size_t bound = 0;
    for (int pod = 0; pod < kPodNames; ++pod) {
      const auto found = pod_at(pod);
      if (found && !found->node_name.empty() && !found->finished()) ++bound;
    }
    if (counts.bound == bound && counts.expected == 0 && counts.nodes == kNodes) return;
    truth_.violate(
        fmt::format("after quiet the ledger has {} bound pods, {} expected placements and {} "
                    "nodes; {} pods are "
                    "bound, and {} nodes exist",
                    counts.bound, counts.expected, counts.nodes, bound, kNodes));
  }

  void compare(const extender::Ledger& fresh) {
    for (const auto& node : nodes_) {
      const auto held = extender_->ledger().node(NodeName(node->name()));
      const auto expected = fresh.node(NodeName(node->name()));
      if (!held || !expected)
        return truth_.violate("node " + node->name() + " is not in the ledger");
      for (std::size_t i = 0; i < expected->node.cards.size(); ++i) {
        if (i < held->node.cards.size() &&
            held->node.cards[i].used == expected->node.cards[i].used) {
          continue;
        }
        return truth_.violate(
            fmt::format("the ledger counts {} of card {} of node {}, and a fresh one {}",
                        i < held->node.cards.size() ? text_of(held->node.cards[i].used) : "nothing",
                        i, node->name(), text_of(expected->node.cards[i].used)));
      }
    }
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
      std::optional<std::string> reply;
      extender.call("filter", body.dump(), [&](int, const std::string& answer) { reply = answer; });
      advance_to(executor_.now() + Duration(1'000));
      if (!reply) return truth_.violate("filter does not answer after quiet");
      const Json read = Json::parse(*reply, nullptr, false);
      if (!read.contains("NodeNames") || !read["NodeNames"].is_array()) continue;
      if (read["NodeNames"].empty()) continue;
      return truth_.violate(fmt::format("pod {} fits node {} and is not bound", name_of(pod),
                                        read["NodeNames"].front().get<std::string>()));
    }
  }

  test::ManualExecutor executor_;
  const std::string folder_;
  const bool has_policies_;
  const Contract contract_ = Contract::for_domain(kDefaultResourceDomain).value();
  kube::MemoryApiServer server_{executor_, {}};
  Truth truth_;
  Fates extender_fates_;
  Fates scheduler_fates_;
  Fates no_faults_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<ExtenderProcess> extender_;
  std::unique_ptr<Scheduler> scheduler_;
  int extenders_ = 0;
  int cycles_ = 0;  // of schedulers that were killed
};

}  // namespace

Outcome run_history(const std::vector<Event>& plan, std::uint64_t seed, const std::string& folder) {
  return World(seed, folder).run(plan);
}

namespace {

// Two violations are the same if they differ only in numbers.
std::string kind_of(const std::optional<std::string>& violation) {
  std::string kind = violation.value_or("");
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
