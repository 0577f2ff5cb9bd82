// Pods that request cards, as their Pod objects describe them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

struct PodContainerRow {
  std::string name;
  std::string kind;  // "app", "init" or "sidecar"
  std::int64_t cards = 0;
  std::int64_t core = 0;    // of each card
  std::int64_t memory = 0;  // MiB of each card
  bool whole = false;       // all memory of each card
  std::vector<std::int64_t> indices{};
};

struct PodRow {
  PodRef ref;
  std::string node{};    // empty: it waits
  std::string status{};  // "Running", "Unscheduled", "Starting", "Terminating", ...
  std::string policy{};  // its annotation
  std::string owner{};   // "Deployment/train"
  // Why it waits, or what is wrong with its request or its annotations.
  std::string message{};
  bool broken = false;  // the request or the annotations are wrong
  std::vector<PodContainerRow> containers{};
  std::optional<Time> created{};
};

// Nothing for a pod that requests no cards, and for one that has finished. Pure.
std::optional<PodRow> pod_row(const GpuPod& pod, const Contract& contract);

struct PodChoice {
  std::string name_space{};  // empty: that of the context of the kubeconfig
  bool all = false;
  std::string selector{};
  std::vector<std::string> names{};
};
// -n, -A, -l and POD...
void add_pod_flags(Options& options, PodChoice& choice);
// -n, -A and -l.
void add_pod_selection_flags(Options& options, PodChoice& choice);
// -n alone.
void add_namespace_flag(Options& options, std::string& name_space);
// The namespace of the flag, or of the context, or "default".
std::string namespace_of(const std::string& flag, const kube::Config& config);

// --resource-domain
void add_domain_flag(Options& options, std::string& domain);

// Returns the path at which the API server lists them.
std::string pods_path(const PodChoice& choice, const std::string& name_space);
// The pods that request cards, sorted by namespace and name. Errors: they cannot be listed; one
// that is named does not exist or requests no cards.
Result<std::vector<PodRow>> read_pods(Api& api, const PodChoice& choice,
                                      const std::string& name_space, const Contract& contract);

// The pods with the labels of the choice, also those that have finished. Errors: they cannot be
// listed.
Result<std::set<PodRef>> selected_pods(Api& api, const PodChoice& choice,
                                       const std::string& name_space);

// The sums over the containers, as Kubernetes counts a pod (pod_requests.h).
struct PodSums {
  std::int64_t core = 0;
  std::int64_t memory = 0;
  bool whole = false;  // it has whole cards, whose memory is not included

  PodSums& operator+=(const PodSums& other);
};
PodSums sums_of(const PodRow& pod);
// "0,2", the cards of all containers; "?" if they are not known.
std::string cards_text(const PodRow& pod);

}  // namespace mgpu::kubectl
