#include "bench/sim/scheduler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bench/sim/calls.h"
#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"
#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/placement/node_gates.h"

namespace mgpu::sim {
namespace {

using Json = nlohmann::json;

// Lists a collection page by page and reads its items.
template <class T>
Result<std::vector<T>> read_all(kube::Transport& transport, const kube::Resource& resource,
                                Result<T> (*read)(std::string_view)) {
  std::vector<T> all;
  std::string next;
  do {
    const kube::Request request = kube::list(resource, kube::kListPageSize, next);
    auto body = body_of(request, call(transport, request));
    if (!body) return body.error();
    auto page = kube::read_list_page(*body);
    if (!page) return page.error();
    for (const std::string& item : page->items) {
      auto value = read(item);
      if (!value) return value.error();
      all.push_back(std::move(*value));
    }
    next = page->continue_token;
  } while (!next.empty());
  return all;
}

std::int64_t amount(const kube::StringMap& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto value = parse_whole_quantity(resource, found->second);
  return value ? *value : 0;
}

std::int64_t requested(const kube::Pod& pod, const std::string& resource) {
  PodRequests<std::int64_t> requests;
  for (const kube::Container& container : pod.init_containers) {
    const std::int64_t own = amount(container.limits, resource);
    container.restart_always ? requests.add_lasting(own) : requests.add_init(own);
  }
  for (const kube::Container& container : pod.containers)
    requests.add_lasting(amount(container.limits, resource));
  return requests.peak();
}

std::set<std::string> extended_resources(const kube::Pod& pod) {
  std::set<std::string> names;
  for (const auto* containers : {&pod.init_containers, &pod.containers}) {
    for (const kube::Container& container : *containers) {
      for (const auto& [name, value] : container.limits) {
        const bool is_native = name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
                               name.starts_with("hugepages-");
        if (!is_native) names.insert(name);
      }
    }
  }
  return names;
}

// The text of FitError.Error in kube-scheduler's framework/types.go, such as: 0/3 nodes are
// available: 1 node(s) had ..., 2 Insufficient ....
std::string fit_error(std::size_t nodes, const std::map<std::string, int>& reasons) {
  std::vector<std::string> parts;
  for (const auto& [sentence, count] : reasons)
    parts.push_back(std::to_string(count) + " " + sentence);
  std::sort(parts.begin(), parts.end());
  std::string text = "0/" + std::to_string(nodes) + " nodes are available";
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? ": " : ", ") + parts[i];
  return text + ".";
}

// kube-scheduler sends unused members as null.
std::string extender_args(const std::string& pod, const std::vector<std::string>& nodes) {
  return Json{{"Pod", Json::parse(pod)}, {"Nodes", nullptr}, {"NodeNames", nodes}}.dump();
}

void count_reasons(const Json& reply, const char* member, std::map<std::string, int>& reasons) {
  if (!reply.contains(member) || !reply[member].is_object()) return;
  for (const auto& [node, sentence] : reply[member].items())
    ++reasons[sentence.is_string() ? sentence.get<std::string>() : sentence.dump()];
}

}  // namespace

Scheduler::Scheduler(kube::Transport& api_server, kube::Transport& extender, std::string url_prefix)
    : api_server_(api_server), extender_(extender), url_prefix_(std::move(url_prefix)) {}

Result<Decision> Scheduler::schedule(const std::string& pod_json) {
  auto pod = kube::read_pod(pod_json);
  if (!pod) return pod.error();
  auto cluster = read_cluster();
  if (!cluster) return cluster.error();
  FilterResult fits = fit_nodes(*cluster, *pod);
  if (!fits.nodes.empty())
    if (auto filtered = filter(pod_json, fits); !filtered) return filtered.error();
  if (fits.nodes.empty()) return Decision{"", fit_error(cluster->nodes.size(), fits.reasons)};
  auto node = best(pod_json, fits.nodes);
  if (!node) return node.error();
  return bind(*pod, *node);
}

Result<Scheduler::Cluster> Scheduler::read_cluster() {
  auto nodes = read_all<kube::Node>(api_server_, kube::all_nodes(), &kube::read_node);
  if (!nodes) return nodes.error();
  auto pods = read_all<kube::Pod>(api_server_, kube::bound_pods(), &kube::read_pod);
  if (!pods) return pods.error();
  std::sort(nodes->begin(), nodes->end(), [](const kube::Node& a, const kube::Node& b) {
    return a.metadata.name < b.metadata.name;
  });
  return Cluster{std::move(*nodes), std::move(*pods)};
}

// Checks extended resources as NodeResourcesFit does, and what the spec says of nodes, before the
// extender is called.
Scheduler::FilterResult Scheduler::fit_nodes(const Cluster& cluster, const kube::Pod& pod) {
  FilterResult fits;
  for (const kube::Node& node : cluster.nodes) {
    if (const auto gate =
            extender::gate_for(pod.node_rules, node.metadata.name, extender::gates_of(node))) {
      ++fits.reasons[std::string(sentence(*gate))];
      continue;
    }
    bool fitting = true;
    for (const std::string& resource : extended_resources(pod)) {
      const std::int64_t wanted = requested(pod, resource);
      if (wanted == 0) continue;
      std::int64_t used = 0;
      for (const kube::Pod& other : cluster.pods)
        if (other.node_name == node.metadata.name) used += requested(other, resource);
      if (wanted + used <= amount(node.allocatable, resource)) continue;
      ++fits.reasons["Insufficient " + resource];
      fitting = false;
    }
    if (fitting) fits.nodes.push_back(node.metadata.name);
  }
  return fits;
}

Result<std::string> Scheduler::call_verb(const std::string& verb, std::string body) {
  const kube::Request request = post_json(url_prefix_ + "/" + verb, std::move(body));
  return body_of(request, call(extender_, request));
}

Result<void> Scheduler::filter(const std::string& pod, FilterResult& fits) {
  auto body = call_verb("filter", extender_args(pod, fits.nodes));
  if (!body) return body.error();
  const Json reply = Json::parse(*body, nullptr, false);
  if (!reply.is_object()) return error("filter: the extender's reply is not JSON");
  if (const std::string problem = reply.value("Error", ""); !problem.empty())
    return error("filter: " + problem);
  fits.nodes.clear();
  if (reply.contains("NodeNames") && reply["NodeNames"].is_array())
    fits.nodes = reply["NodeNames"].get<std::vector<std::string>>();
  count_reasons(reply, "FailedNodes", fits.reasons);
  count_reasons(reply, "FailedAndUnresolvableNodes", fits.reasons);
  return {};
}

Result<std::string> Scheduler::best(const std::string& pod, const std::vector<std::string>& nodes) {
  if (nodes.size() == 1) return nodes.front();
  auto body = call_verb("prioritize", extender_args(pod, nodes));
  if (!body) return body.error();
  const Json reply = Json::parse(*body, nullptr, false);
  if (!reply.is_array() || reply.empty()) return error("prioritize: the reply is not a list");
  const auto higher = [](const Json& a, const Json& b) {
    return a.value("Score", 0) < b.value("Score", 0);
  };
  return std::max_element(reply.begin(), reply.end(), higher)->value("Host", "");
}

Result<Decision> Scheduler::bind(const kube::Pod& pod, const std::string& node) {
  auto body = call_verb("bind", Json{{"PodName", pod.metadata.name},
                                     {"PodNamespace", pod.metadata.name_space},
                                     {"PodUID", pod.metadata.uid},
                                     {"Node", node}}
                                    .dump());
  if (!body) return body.error();
  const Json reply = Json::parse(*body, nullptr, false);
  if (!reply.is_object()) return error("bind: the extender's reply is not JSON");
  const std::string problem = reply.value("Error", "");
  return problem.empty() ? Decision{node, ""} : Decision{"", "binding rejected: " + problem};
}

}  // namespace mgpu::sim
