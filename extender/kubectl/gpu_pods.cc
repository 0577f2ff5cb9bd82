#include "extender/kubectl/gpu_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/contract/container_kind.h"
#include "common/contract/gpu_request.h"
#include "common/contract/pod_requests.h"
#include "common/kube/objects/pod_owner.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

PodContainerRow container_row(const ContainerRequest& request) {
  return {.name = request.name,
          .kind = std::string(to_string(request.kind)),
          .cards = request.cards,
          .core = request.per_card.core.value(),
          .memory = request.per_card.memory.value(),
          .whole = request.whole};
}

void set_cards(PodRow& row, const GpuRequest& request, const Placement& placement) {
  for (std::size_t i = 0; i < row.containers.size() && i < placement.cards_of.size(); ++i) {
    for (const CardIndex card : placement.cards_of[i]) {
      row.containers[i].indices.push_back(card.value());
    }
  }
  MGPU_CHECK(row.containers.size() == request.containers.size(), "a row for each container");
}

std::string status_text(const GpuPod& pod) {
  if (pod.pod.metadata.being_deleted) return "Terminating";
  // Both are Pending in Kubernetes.
  if (pod.pod.node_name.empty()) return "Unscheduled";
  return pod.pod.phase == "Pending" ? "Starting" : pod.pod.phase;
}

void set_broken(PodRow& row, std::string message) {
  row.broken = true;
  row.message = std::move(message);
}

Result<void> check_named(const std::vector<PodRow>& pods, const PodChoice& choice,
                         const std::string& name_space) {
  for (const std::string& name : choice.names) {
    const bool found =
        std::ranges::any_of(pods, [&](const PodRow& pod) { return pod.ref.name == name; });
    if (found) continue;
    return error(fmt::format("namespace {} has no pod {} that requests cards and has not finished",
                             in_quotes(name_space), in_quotes(name)));
  }
  return {};
}

struct Sum {
  std::int64_t core = 0;
  std::int64_t memory = 0;
  Sum& operator+=(const Sum& other) {
    core += other.core;
    memory += other.memory;
    return *this;
  }
};

Sum max_of(const Sum& a, const Sum& b) {
  return {std::max(a.core, b.core), std::max(a.memory, b.memory)};
}

std::string list_phrase(const PodChoice& choice, const std::string& name_space) {
  return choice.all ? "list the pods of all namespaces"
                    : "list the pods in namespace " + name_space;
}

}  // namespace

std::optional<PodRow> pod_row(const GpuPod& pod, const Contract& contract) {
  if (pod.pod.finished()) return std::nullopt;
  PodRow row{.ref = pod.pod.ref(), .node = pod.pod.node_name, .status = status_text(pod)};
  row.created = pod.created;
  const kube::PodOwner owner = kube::owner_of(pod.pod);
  row.owner = owner.kind + "/" + owner.name;
  const auto policy = pod.pod.metadata.annotations.find(contract.policy);
  if (policy != pod.pod.metadata.annotations.end()) row.policy = policy->second;
  const auto request = read_containers(pod.pod, contract, MiB{});
  if (!request) {
    set_broken(row, request.error().message);
    return row;
  }
  if (request->empty()) return std::nullopt;
  std::ranges::transform(request->containers, std::back_inserter(row.containers), container_row);
  if (row.node.empty()) {
    row.message = pod.unscheduled_message;
    return row;
  }
  const auto placement = read_placement(pod.pod, *request, contract);
  if (placement) {
    set_cards(row, *request, *placement);
  } else {
    set_broken(row, placement.error().message);
  }
  return row;
}

void add_namespace_flag(Options& options, std::string& name_space) {
  options.add_text("n,namespace",
                   "Namespace of the pods. If empty, that of the kubeconfig is used.", name_space);
  options.check([&name_space]() -> Result<void> {
    return name_space.empty() ? Result<void>() : check_name("--namespace", name_space);
  });
}

void add_pod_selection_flags(Options& options, PodChoice& choice) {
  add_namespace_flag(options, choice.name_space);
  options.add_flag("A,all-namespaces", "Show the pods of all namespaces.", choice.all);
  options.add_text("l,selector", "Label selector of the pods. If empty, all are shown.",
                   choice.selector);
}

void add_pod_flags(Options& options, PodChoice& choice) {
  options.add_words("POD...", choice.names, 0, kNodesNamedMax);
  options.check([&choice]() -> Result<void> {
    remove_kind("pod", choice.names);
    return {};
  });
  add_pod_selection_flags(options, choice);
  options.check([&choice]() -> Result<void> {
    if (!choice.all || choice.names.empty()) return {};
    return error("--all-namespaces does not go with the name of a pod");
  });
}

std::string namespace_of(const std::string& flag, const kube::Config& config) {
  if (!flag.empty()) return flag;
  return config.name_space.empty() ? "default" : config.name_space;
}

void add_domain_flag(Options& options, std::string& domain) {
  options.add_text("resource-domain", "Domain of the resources and annotations.", domain);
  options.check([&domain]() -> Result<void> {
    const auto contract = Contract::for_domain(domain);
    if (contract) return {};
    return error("--resource-domain: " + contract.error().message);
  });
}

std::string pods_path(const PodChoice& choice, const std::string& name_space) {
  return choice.all ? "/api/v1/pods" : fmt::format("/api/v1/namespaces/{}/pods", name_space);
}

Result<std::vector<PodRow>> read_pods(Api& api, const PodChoice& choice,
                                      const std::string& name_space, const Contract& contract) {
  std::vector<PodRow> rows;
  const auto listed =
      api.list({pods_path(choice, name_space), "status.phase!=Succeeded,status.phase!=Failed",
                choice.selector},
               list_phrase(choice, name_space), [&](const std::string& text) {
                 // A pod that cannot be read is not one of which anything could be shown.
                 const auto pod = read_gpu_pod(text);
                 if (!pod) return;
                 const auto& names = choice.names;
                 const bool named = std::ranges::find(names, pod->pod.metadata.name) != names.end();
                 if (!names.empty() && !named) return;
                 if (auto row = pod_row(*pod, contract)) rows.push_back(*std::move(row));
               });
  if (!listed.known()) return error(listed.problem());
  if (auto checked = check_named(rows, choice, name_space); !checked) return checked.error();
  std::ranges::sort(rows, {},
                    [](const PodRow& row) { return std::pair(row.ref.name_space, row.ref.name); });
  return rows;
}

Result<std::set<PodRef>> selected_pods(Api& api, const PodChoice& choice,
                                       const std::string& name_space) {
  std::set<PodRef> pods;
  const auto listed = api.list({pods_path(choice, name_space), "", choice.selector},
                               list_phrase(choice, name_space), [&](const std::string& text) {
                                 if (const auto pod = read_gpu_pod(text))
                                   pods.insert(pod->pod.ref());
                               });
  if (!listed.known()) return error(listed.problem());
  return pods;
}

PodSums sums_of(const PodRow& pod) {
  PodRequests<Sum> requests;
  PodSums sums;
  for (const PodContainerRow& container : pod.containers) {
    const Sum amount{container.cards * container.core,
                     container.whole ? 0 : container.cards * container.memory};
    container.kind == "init" ? requests.add_init(amount) : requests.add_lasting(amount);
    sums.whole |= container.whole;
  }
  sums.core = requests.peak().core;
  sums.memory = requests.peak().memory;
  return sums;
}

PodSums& PodSums::operator+=(const PodSums& other) {
  core += other.core;
  memory += other.memory;
  whole |= other.whole;
  return *this;
}

std::string cards_text(const PodRow& pod) {
  if (pod.node.empty()) return "";
  if (pod.broken) return "?";
  std::set<std::int64_t> cards;
  for (const PodContainerRow& container : pod.containers) {
    cards.insert(container.indices.begin(), container.indices.end());
  }
  return fmt::format("{}", fmt::join(cards, ","));
}

}  // namespace mgpu::kubectl
