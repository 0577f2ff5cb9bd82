#include "test/simulation/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

namespace mgpu::simulation {
namespace {

constexpr int kEvents = 200;
constexpr int kPodsAtFirst = 20;
constexpr int kFaultsAtLeast = 3;
constexpr int kGroupEvents = 120;
// So that the pods that are bound alone leave room for groups.
constexpr int kPodNamesBesideGroups = 9;
constexpr Duration kLength{120'000};

struct Weight {
  Action action;
  int weight;
};

constexpr std::array kWeights = {
    Weight{Action::kCreatePod, 70},      Weight{Action::kDeletePod, 40},
    Weight{Action::kRecreatePod, 12},    Weight{Action::kFinishPod, 10},
    Weight{Action::kEditCards, 6},       Weight{Action::kEditMultipleGpu, 4},
    Weight{Action::kCreateOnNode, 3},    Weight{Action::kCreateForged, 3},
    Weight{Action::kKillExtender, 4},    Weight{Action::kKillScheduler, 3},
    Weight{Action::kKillPlugin, 4},      Weight{Action::kRestartKubelet, 3},
    Weight{Action::kPowerLoss, 2},       Weight{Action::kDiskFails, 2},
    Weight{Action::kCardFails, 4},       Weight{Action::kCardRecovers, 4},
    Weight{Action::kRemoveNode, 1},      Weight{Action::kFault, 10},
    Weight{Action::kFaultOfBind, 14},    Weight{Action::kBreakWatches, 5},
    Weight{Action::kLagWatches, 5},      Weight{Action::kCompact, 2},
    Weight{Action::kRelist, 6},          Weight{Action::kLateBind, 6},
    Weight{Action::kFreeze, 5},          Weight{Action::kPauseVm, 3},
    Weight{Action::kReplaceExtender, 5}, Weight{Action::kCrashContainers, 6},
    Weight{Action::kPutSpecBack, 3},     Weight{Action::kReplacePlugin, 6},
    Weight{Action::kEndMps, 3},          Weight{Action::kRestartServices, 4},
};

// Those of users come first.
constexpr int kCalmWeights = 4;
static_assert(kWeights[kCalmWeights - 1].action == Action::kFinishPod);

// With two replicas besides.
constexpr std::array kReplicaWeights = {
    Weight{Action::kKillReplica, 8},       Weight{Action::kKillReplicas, 4},
    Weight{Action::kShutDownReplica, 6},   Weight{Action::kStopReplica, 6},
    Weight{Action::kStopLeaderInBind, 10}, Weight{Action::kHoldBind, 8},
    Weight{Action::kCutFromApi, 10},       Weight{Action::kCutFromScheduler, 4},
    Weight{Action::kMoveClock, 3},         Weight{Action::kMisroute, 3},
    Weight{Action::kHangLeader, 4},
};

// With groups, of the additional events.
constexpr std::array kGroupWeights = {
    Weight{Action::kCreateGroup, 50},
    Weight{Action::kDeleteGroup, 35},
    Weight{Action::kDeleteMember, 15},
};

static_assert(kWeights.size() + kReplicaWeights.size() + kGroupWeights.size() == kActions,
              "every action has a weight");

class Planner {
 public:
  explicit Planner(std::uint64_t seed) : setting_(setting_of(seed)), random_(seed) {
    weights_.assign(kWeights.begin(),
                    setting_.is_calm ? kWeights.begin() + kCalmWeights : kWeights.end());
    if (setting_.replicas == 1) return;
    weights_.insert(weights_.end(), kReplicaWeights.begin(), kReplicaWeights.end());
  }

  std::vector<Event> plan() {
    const int names = setting_.has_groups ? kPodNamesBesideGroups : kPodNames;
    for (int pod = 0; pod < kPodsAtFirst; ++pod) add(Action::kCreatePod, pod % names);
    const int faults = setting_.is_calm ? 0 : kFaultsAtLeast;
    for (int fault = 0; fault < faults; ++fault) add(Action::kFaultOfBind, 0);
    while (std::ssize(events_) < kEvents) add(any_action(), below(names));
    if (setting_.has_groups) {
      weights_.assign(kGroupWeights.begin(), kGroupWeights.end());
      for (int event = 0; event < kGroupEvents; ++event) add(any_action(), below(1'000));
    }
    std::ranges::stable_sort(events_, {}, &Event::at);
    return events_;
  }

 private:
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  Action any_action() {
    int sum = 0;
    for (const Weight& weight : weights_) sum += weight.weight;
    int left = below(sum);
    for (const Weight& weight : weights_) {
      left -= weight.weight;
      if (left < 0) return weight.action;
    }
    return Action::kCreatePod;
  }

  void add(Action action, int who) {
    events_.push_back(
        {Duration(below(static_cast<int>(kLength.count()))), action, who, below(1'000), below(8)});
  }

  const Setting setting_;
  std::mt19937_64 random_;
  std::vector<Weight> weights_;
  std::vector<Event> events_;
};

std::string client_text(int client) {
  if (client == kFollowerClient) return "the extender that follows";
  client %= kClients;
  if (client == 0) return "the extender";
  if (client == 1) return "kube-scheduler";
  return fmt::format("{} of node n{}", client % 2 == 0 ? "the plugin" : "kubelet", client / 2 - 1);
}

double in_seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string what_happens_to_requests(const Event& event) {
  switch (event.action) {
    case Action::kFault:
      return fmt::format("the next {} requests of {}: {}", event.amount + 1, client_text(event.who),
                         text_of(fault_of(event)));
    case Action::kFaultOfBind:
      return fmt::format("the next {} binds: {}", event.amount % 3 + 1, text_of(fault_of(event)));
    case Action::kRelist:
      return "the extender lists again";
    case Action::kLateBind:
      return "the next bind is late, and the extender is killed";
    case Action::kBreakWatches:
      return "break the watches of " + client_text(event.who);
    case Action::kLagWatches:
      return fmt::format("the watches of {} lag for {} s", client_text(event.who),
                         in_seconds(failure_of(event)));
    case Action::kCompact:
      return "compact the history of the API server";
    default:
      return "";
  }
}

std::string what_happens_to_groups(const Event& event) {
  switch (event.action) {
    case Action::kCreateGroup:
      return fmt::format(
          "create a group {}of {} pods, of which {} are needed (request {}, priority {})",
          is_by_label(event) ? "by label " : "", members_of(event), min_count_of(event), event.what,
          event.amount % 2);
    case Action::kDeleteGroup:
      return fmt::format("delete the pods of a group ({})", event.who);
    case Action::kDeleteMember:
      return fmt::format("delete a pod ({}) of a group ({})", event.what, event.who);
    default:
      return what_happens_to_requests(event);
  }
}

std::string how_it_stops(const Event& event) {
  return fmt::format("{} for {} s", pauses(event) ? "paused with its machine" : "frozen",
                     in_seconds(long_stop_of(event)));
}

std::string what_happens_to_replicas(const Event& event) {
  const std::string replica = is_of_follower(event) ? "the follower" : "the leader";
  const double time = in_seconds(long_stop_of(event));
  switch (event.action) {
    case Action::kKillReplica:
      return "kill " + replica;
    case Action::kKillReplicas:
      return "kill both replicas";
    case Action::kShutDownReplica:
      return "shut " + replica + " down";
    case Action::kStopReplica:
      return fmt::format("{} is {}", replica, how_it_stops(event));
    case Action::kStopLeaderInBind:
      return fmt::format("the leader is {} before it sends the next bind", how_it_stops(event));
    case Action::kHangLeader:
      return fmt::format("the work of the leader hangs for {} s", time);
    case Action::kHoldBind:
      return fmt::format("the next bind waits for {} s in an API server, and the leader is killed",
                         time);
    case Action::kCutFromApi:
      return fmt::format("requests of {} to the API server are {} for {} s", replica,
                         cut_of(event) == Link::Cut::kLost ? "lost" : "late", time);
    case Action::kCutFromScheduler:
      return fmt::format("requests of kube-scheduler to {} are lost for {} s", replica, time);
    case Action::kMoveClock:
      return fmt::format("the clock of {} is moved {} by an hour", replica,
                         event.what % 2 == 0 ? "forward" : "back");
    case Action::kMisroute:
      return fmt::format("requests of kube-scheduler reach any replica for {} s",
                         in_seconds(failure_of(event)));
    default:
      return what_happens_to_groups(event);
  }
}

std::string_view before_power_loss(const Event& event) {
  return exchanges_cards(event) ? " after the cards of its pods are exchanged" : "";
}

std::string what_happens_to_node(const Event& event) {
  const int node = event.who % kNodes;
  switch (event.action) {
    case Action::kKillPlugin:
      return fmt::format("kill the plugin of node n{}", node);
    case Action::kRestartKubelet:
      return fmt::format("restart kubelet of node n{}", node);
    case Action::kPowerLoss:
      return fmt::format("node n{} loses power{}", node, before_power_loss(event));
    case Action::kReplacePlugin:
      return fmt::format("a second plugin starts on node n{}, and the {} one ends after {} s", node,
                         successor_ends(event) ? "second" : "first",
                         in_seconds(long_stop_of(event)));
    case Action::kCrashContainers:
      return fmt::format("the containers of a pod on node n{} crash", node);
    case Action::kEndMps:
      return fmt::format("the MPS daemon of card {} of node n{} ends, and starts after {} s",
                         event.what % kCardsPerNode, node, in_seconds(failure_of(event)));
    case Action::kRestartServices:
      return fmt::format(
          "the plugin, kubelet and, for {} s, MPS of node n{} restart when the "
          "containers of a pod crash",
          in_seconds(failure_of(event)), node);
    case Action::kPutSpecBack:
      return fmt::format("an old CDI spec is put back on node n{}", node);
    case Action::kDiskFails:
      return fmt::format("the disk of node n{} fails for {} s", node,
                         in_seconds(failure_of(event)));
    case Action::kCardFails:
      return fmt::format("card {} of node n{} fails", event.what % kCardsPerNode, node);
    case Action::kCardRecovers:
      return fmt::format("card {} of node n{} recovers", event.what % kCardsPerNode, node);
    case Action::kRemoveNode:
      return fmt::format("remove and create node n{}", node);
    default:
      return what_happens_to_replicas(event);
  }
}

std::string what_happens(const Event& event) {
  const int pod = event.who % kPodNames;
  switch (event.action) {
    case Action::kCreatePod:
      return fmt::format("create pod p{} (request {}, priority {})", pod, event.what,
                         event.amount % 2);
    case Action::kDeletePod:
      return fmt::format("delete pod p{}", pod);
    case Action::kRecreatePod:
      if (recreates_all(event)) {
        return fmt::format(
            "delete the pods of node n{} at once, and create them again, while the watches of its "
            "plugin lag for {} s",
            event.who % kNodes, in_seconds(failure_of(event)));
      }
      return fmt::format("delete pod p{} at once, and create it again", pod);
    case Action::kFinishPod:
      return fmt::format("pod p{} finishes", pod);
    case Action::kEditCards:
      return fmt::format("change the index annotation of pod p{} to {}", pod,
                         event.what % kCardsPerNode);
    case Action::kEditMultipleGpu:
      return fmt::format("change container-multiple-gpu of pod p{}", pod);
    case Action::kCreateOnNode:
      return fmt::format("create pod p{} on node n{}", pod, event.what % kNodes);
    case Action::kCreateForged:
      return fmt::format("create pod p{} on node n{} with card {}", pod, event.what % kNodes,
                         event.amount % kCardsPerNode);
    case Action::kKillExtender:
      return "kill the extender";
    case Action::kReplaceExtender:
      return fmt::format("the extender is {} for {} s, and another one starts",
                         pauses(event) ? "paused with its machine" : "frozen",
                         in_seconds(stop_of(event)));
    case Action::kKillScheduler:
      return "kill kube-scheduler";
    case Action::kFreeze:
      return fmt::format("{} is frozen for {} s", client_text(event.who),
                         in_seconds(stop_of(event)));
    case Action::kPauseVm:
      return fmt::format("the machine of {} is paused for {} s", client_text(event.who),
                         in_seconds(stop_of(event)));
    default:
      return what_happens_to_node(event);
  }
}

}  // namespace

Setting setting_of(std::uint64_t seed) {
  Setting setting;
  setting.has_policies = seed % 2 == 0;
  setting.has_refused_objects = seed / 8 % 2 == 1;
  setting.has_groups = seed % 6 == 4;
  setting.preempts_by_card = seed % 12 == 10;
  setting.is_calm = seed % 24 == 22;
  if (setting.is_calm) {
    setting.has_refused_objects = false;
    setting.has_groups = seed % 48 == 22;
  }
  if (seed % 4 != 0) return setting;
  setting.replicas = 2;
  setting.is_beside_scheduler = seed / 4 % 4 == 3;
  setting.has_short_lease = seed / 4 % 2 == 1;
  return setting;
}

std::vector<Event> plan_of(std::uint64_t seed) {
  return Planner(seed).plan();
}

Fault fault_of(const Event& event) {
  return static_cast<Fault>(1 + event.what % (kFaults - 1));
}

int members_of(const Event& event) {
  constexpr int kRare = 50;
  if (event.what % kRare == 0) return 64;
  if (event.what % kRare < 4) return 9 + event.what % 16;
  return 2 + event.what % 7 * (event.what % 3) / 2;
}

int min_count_of(const Event& event) {
  const int members = members_of(event);
  return event.amount % 8 == 7 && members > 2 ? members - 1 : members;
}

bool never_preempts(const Event& event) {
  return event.amount >= 6;
}

bool is_by_label(const Event& event) {
  return event.what % 5 < 2;
}

// Shorter and longer than the timeouts of filter and bind: after the short ones there is time left
// for the bind that was stopped.
Duration stop_of(const Event& event) {
  constexpr Duration kStep{500};
  return kStep * (1 + event.amount * event.amount / 2);
}

Duration long_stop_of(const Event& event) {
  return std::chrono::seconds(6 + 5 * event.amount);
}

bool is_of_follower(const Event& event) {
  return event.who % 3 == 0;
}

Duration kill_after(const Event& event) {
  constexpr Duration kStep{50};
  return kStep * (1 + event.what % 20);
}

Link::Cut cut_of(const Event& event) {
  return event.what % 2 == 0 ? Link::Cut::kLost : Link::Cut::kServedAfterwards;
}

Duration failure_of(const Event& event) {
  return std::chrono::seconds(1 + event.amount);
}

bool recreates_all(const Event& event) {
  return event.what % 4 == 0;
}

bool exchanges_cards(const Event& event) {
  return event.what % 2 == 0;
}

bool successor_ends(const Event& event) {
  return event.what % 2 == 0;
}

bool pauses(const Event& event) {
  return event.what % 2 == 0;
}

std::string text_of(const Event& event) {
  return fmt::format("{:.3f} s: {}", static_cast<double>(event.at.count()) / 1'000,
                     what_happens(event));
}

}  // namespace mgpu::simulation
