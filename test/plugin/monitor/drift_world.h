// A node as its drifts see it: container "app" of pod ml/a holds 30 % of card 0, and runs. Tests
// change one thing at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugin/monitor/drift.h"
#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {

inline Contract default_contract() {
  return *Contract::for_domain(kDefaultResourceDomain);
}

struct DriftWorld {
  DriftWorld() {
    facts.now = Instant(std::chrono::hours(1'000));
    for (int n = 0; n < 3; ++n) {
      facts.cards.push_back({CardIndex(n), card(n), "V100", MiB(32'000)});
    }
    facts.processes.emplace();
    facts.own = {.pid = 1, .pod = PodUid("uid-plugin"), .name_space = "mgpu-system"};
    run("a", "app", {0});
  }
  DriftWorld(const DriftWorld&) = delete;
  DriftWorld& operator=(const DriftWorld&) = delete;

  // A container that has its cards, with the id of process() in monitor_world.h.
  void run(const std::string& name, const std::string& container, const std::vector<int>& cards) {
    if (!has(name)) facts.pods.push_back(new_pod("ml", name));
    kube::Pod& of = pod(name);
    of.containers.push_back({.name = container, .limits = {{contract.core_resource, "30"}}});
    of.container_statuses.push_back({container, "containerd://id-" + name + "-" + container, true});
    std::vector<CardGrant> grants;
    std::string indices;
    for (const int n : cards) {
      grants.push_back(grant(n, 30, 1'000));
      indices += (indices.empty() ? "" : ",") + std::to_string(n);
    }
    of.metadata.annotations[contract.index_key(container)] = indices;
    facts.records.push_back(record(name, container, grants));
    facts.records.back().owner->kind = ContainerKind::kApp;
  }
  static kube::Pod new_pod(const std::string& name_space, const std::string& name) {
    kube::Pod made;
    made.metadata.name_space = name_space;
    made.metadata.name = name;
    made.metadata.uid = "uid-" + name;
    made.phase = "Running";
    return made;
  }
  bool has(const std::string& name) const {
    return find_pod(facts, PodUid("uid-" + name)) != nullptr;
  }
  kube::Pod& pod(const std::string& name = "a") {
    for (kube::Pod& one : facts.pods) {
      if (one.metadata.name == name) return one;
    }
    throw std::out_of_range(name);
  }
  std::string& annotation(const std::string& container = "app") {
    return pod().metadata.annotations[contract.index_key(container)];
  }
  void use(std::vector<ProcessSample> samples) { facts.processes = std::move(samples); }

  Contract contract = default_contract();
  DriftFacts facts;
};

// A change of the world, and what is found then: "" or the containers, as "a/app b/".
struct DriftCase {
  const char* what;
  std::function<void(DriftWorld&)> change;
  std::string found{};
};

inline std::string containers_of(const std::vector<Drift>& drifts) {
  std::string all;
  for (const Drift& one : drifts) {
    all += (all.empty() ? "" : " ") + one.pod.name + "/" + one.container;
  }
  return all;
}

}  // namespace mgpu::plugin
