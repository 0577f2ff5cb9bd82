#include "extender/kubectl/plugin_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/installation.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/service_client.h"

namespace mgpu::kubectl {
namespace {

constexpr int kNoSuchPath = 404;

struct PluginPod {
  PodRef ref;
  std::string node;
};

Fact<std::string> answer_of(const Result<std::unique_ptr<ServiceClient>>& client,
                            const PluginQuery& query, const std::string& name) {
  const std::string what = fmt::format("{} of {}", query.what, name);
  if (!client) return {Missing::kFailed, fmt::format("{}: {}", what, client.error().message)};
  kube::Request request;
  request.target = query.path;
  const kube::Response response = (*client)->call(request);
  if (response.status != kNoSuchPath) return body_of(response, what);
  return {Missing::kAbsent,
          fmt::format("{}: the device plugin has no {}, so that it is older than this program "
                      "({}); update it",
                      what, query.path, MGPU_VERSION)};
}

Fact<std::string> answer_of_pod(const PluginPod& pod, const Cluster& cluster, std::int64_t port,
                                const PluginQuery& query) {
  const std::string name = fmt::format("{} on node {}", to_string(pod.ref), pod.node);
  return answer_of(ServiceClient::to_pod(cluster, pod.ref, port, false), query, name);
}

Fact<std::vector<PluginPod>> plugin_pods(Cluster& cluster, const std::string& mgpu_namespace) {
  const auto running = running_programs(cluster.api(), mgpu_namespace, "list the device plugins");
  if (!running.known()) return running.as<std::vector<PluginPod>>();
  std::vector<PluginPod> pods;
  for (const ProgramPod& pod : running.value())
    if (pod.is_plugin() && !pod.node.empty()) pods.push_back({pod.ref, pod.node});
  std::ranges::sort(pods, {}, &PluginPod::node);
  return pods;
}

}  // namespace

std::string PluginAnswers::missing_on(const std::set<std::string>& nodes) const {
  std::vector<std::string> missing;
  std::ranges::set_difference(nodes, running, std::back_inserter(missing));
  if (missing.empty()) return "";
  const auto shown = std::min(missing.size(), kShownObjectsMax);
  return fmt::format(
      "no device plugin runs on {} of {} nodes in namespace {}: {}{}; --mgpu-namespace names "
      "another one, and --plugin-url a plugin outside of pods",
      missing.size(), nodes.size(), name_space,
      fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < missing.size() ? ", ..." : "");
}

void add_plugin_flags(Options& options, PluginFlags& flags) {
  options.add_texts(
      "plugin-url",
      "URL of the service listener of a device plugin, such as http://127.0.0.1:9801. If absent, "
      "kubectl port-forward connects to the plugins of the nodes.",
      flags.urls);
  options.add_number("plugin-metrics-port",
                     "Port of that listener in the pods of the device plugin.", flags.port, 1,
                     65535);
  options.check([&flags]() -> Result<void> {
    for (const std::string& url : flags.urls) {
      if (auto checked = check_url("--plugin-url", url); !checked) return checked;
    }
    return {};
  });
}

PluginAnswers ask_plugins(Cluster& cluster, const PluginFlags& flags, const ExtenderFlags& extender,
                          const PluginQuery& query) {
  PluginAnswers read;
  for (const std::string& url : flags.urls) {
    const auto client =
        ServiceClient::create({url, "", false, false}, cluster.config(), cluster.timeout());
    read.answers.push_back({"", answer_of(client, query, url)});
  }
  if (!flags.urls.empty()) return read;
  read.name_space =
      installation_at(cluster.api(), extender.name_space, extender.lease_name).name_space;
  const auto found = plugin_pods(cluster, read.name_space);
  if (!found.known()) {
    read.problem = found.problem();
    return read;
  }
  std::vector<PluginPod> pods;
  for (const PluginPod& pod : found.value()) {
    read.running.insert(pod.node);
    if (query.nodes == nullptr || query.nodes->contains(pod.node)) pods.push_back(pod);
  }
  const std::size_t count = std::min(pods.size(), kPluginsMax);
  read.not_asked = pods.size() - count;
  for (std::size_t begin = 0; begin < count; begin += kPluginsAtOnce) {
    std::vector<std::future<Fact<std::string>>> answers;
    const std::size_t end = std::min(count, begin + kPluginsAtOnce);
    for (std::size_t i = begin; i < end; ++i) {
      answers.push_back(std::async(std::launch::async, [&, i] {
        return answer_of_pod(pods[i], cluster, flags.port, query);
      }));
    }
    for (std::size_t i = begin; i < end; ++i) {
      read.answers.push_back({pods[i].node, answers[i - begin].get()});
    }
  }
  return read;
}

}  // namespace mgpu::kubectl
