#include "extender/kubectl/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/port_forward.h"
#include "extender/kubectl/service_client.h"

namespace mgpu::kubectl {
namespace {

constexpr double kBytesOfMiB = 1024.0 * 1024.0;
constexpr double kPercents = 100;

std::string label_of(const MetricSample& sample, std::string_view name) {
  const auto found = sample.labels.find(name);
  return found == sample.labels.end() ? "" : found->second;
}

// The metrics at one address, or why there are none.
Fact<MetricSamples> metrics_at(const ServiceAddress& address, const kube::Config& config,
                               Duration timeout, const std::string& what) {
  const auto client = ServiceClient::create(address, config, timeout);
  if (!client) return {Missing::kFailed, what + ": " + client.error().message};
  return read_fact((*client)->get("/metrics", what), what, parse_metrics);
}

Fact<MetricSamples> metrics_of_pod(const PodRef& pod, Cluster& cluster, const ClusterFlags& access,
                                   std::int64_t port) {
  const std::string what = "read the metrics of " + to_string(pod);
  const auto forward = PortForward::start({.pod = pod,
                                           .port = static_cast<std::uint16_t>(port),
                                           .kubeconfig = access.kubeconfig,
                                           .context = access.context},
                                          kPortForwardTimeout);
  if (!forward) return {Missing::kFailed, forward.error().message};
  Fact<MetricSamples> read;
  // The listener of a pod may have a certificate, and does not say so.
  for (const char* scheme : {"http", "https"}) {
    const std::string url = fmt::format("{}://127.0.0.1:{}", scheme, (*forward)->port());
    read = metrics_at({url, "", true, false}, cluster.config(), access.request_timeout, what);
    if (read.known()) break;
  }
  return read;
}

bool runs_plugin(const ProgramPod& pod, const PodsOfNodes& nodes) {
  return (pod.name == "mgpu-device-plugin" || pod.component == "device-plugin") &&
         pod.phase == "Running" && nodes.contains(pod.node);
}

struct PluginPod {
  PodRef ref;
  std::string node;
};

Fact<std::vector<PluginPod>> plugin_pods(Cluster& cluster, const ClusterFlags& access,
                                         const std::string& mgpu_namespace,
                                         const PodsOfNodes& nodes) {
  Api api(cluster.transport(), access.request_timeout);
  std::vector<PluginPod> pods;
  const auto listed =
      api.list({fmt::format("/api/v1/namespaces/{}/pods", mgpu_namespace), "",
                "app.kubernetes.io/name in (mgpu,mgpu-device-plugin)"},
               fmt::format("list the device plugins in namespace {}", mgpu_namespace),
               [&](const std::string& text) {
                 const auto pod = read_program_pod(text);
                 if (pod && runs_plugin(*pod, nodes)) pods.push_back({pod->ref, pod->node});
               });
  if (!listed.known()) return listed.as<std::vector<PluginPod>>();
  return pods;
}

void add_read(const Fact<MetricSamples>& metrics, const std::set<PodRef>* pods, ReadUsages& read) {
  if (metrics.known()) {
    add_usages(metrics.value(), read.usages, pods);
  } else {
    read.problems.push_back(metrics.problem());
  }
}

}  // namespace

void add_usages(const MetricSamples& samples, Usages& usages, const std::set<PodRef>* pods) {
  for (const MetricSample& sample : samples) {
    if (!sample.name.starts_with("mgpu_container_")) continue;
    const PodRef pod{label_of(sample, "namespace"), label_of(sample, "pod")};
    if (pods != nullptr && !pods->contains(pod)) continue;
    const UsageKey key(label_of(sample, "namespace"), label_of(sample, "pod"),
                       label_of(sample, "container"), label_of(sample, "index"));
    ContainerUsage& usage = usages[key];
    if (sample.name == "mgpu_container_memory_limit_bytes") {
      usage.memory_granted = sample.value / kBytesOfMiB;
    } else if (sample.name == "mgpu_container_memory_used_bytes") {
      usage.memory_used = sample.value / kBytesOfMiB;
    } else if (sample.name == "mgpu_container_core_limit_ratio") {
      usage.core_granted = sample.value * kPercents;
    } else if (sample.name == "mgpu_container_sm_utilization_ratio") {
      usage.core_used = sample.value * kPercents;
    } else if (sample.name == "mgpu_container_over_limit_total") {
      constexpr double kCountMax = 1e15;
      const bool is_count = sample.value >= 0 && sample.value < kCountMax;
      const bool has_room = usage.over_limit < static_cast<std::int64_t>(kCountMax);
      usage.over_limit += is_count && has_room ? static_cast<std::int64_t>(sample.value) : 0;
    }
  }
}

void add_plugin_flags(Options& options, PluginFlags& flags) {
  options.add_texts("plugin-url",
                    "URL of the metrics of a device plugin, such as http://127.0.0.1:9801; if "
                    "absent, kubectl port-forward connects to the plugins of the pods' nodes",
                    flags.urls);
  options.add_number("plugin-metrics-port", "port of the metrics in the pods of the device plugin",
                     flags.port, 1, 65535);
  options.check([&flags]() -> Result<void> {
    for (const std::string& url : flags.urls) {
      if (url.starts_with("http://") || url.starts_with("https://")) continue;
      return error("--plugin-url must begin with http:// or https://, found " + in_quotes(url));
    }
    return {};
  });
}

ReadUsages read_usages(Cluster& cluster, const ClusterFlags& access, const PluginFlags& flags,
                       const std::string& mgpu_namespace, const PodsOfNodes& nodes) {
  ReadUsages read;
  for (const std::string& url : flags.urls) {
    add_read(metrics_at({url, "", false}, cluster.config(), access.request_timeout,
                        "read the metrics of " + url),
             nullptr, read);
  }
  if (!flags.urls.empty() || nodes.empty()) return read;
  const auto pods = plugin_pods(cluster, access, mgpu_namespace, nodes);
  if (!pods.known()) {
    read.problems.push_back(pods.problem());
    return read;
  }
  if (pods->size() < nodes.size()) {
    read.problems.push_back(fmt::format(
        "the device plugins of {} of {} nodes were not found in namespace {}; --mgpu-namespace "
        "names another one, and --plugin-url a plugin outside of pods",
        nodes.size() - pods->size(), nodes.size(), mgpu_namespace));
  }
  const std::size_t count = std::min(pods->size(), kPluginsMax);
  for (std::size_t begin = 0; begin < count; begin += kPluginsAtOnce) {
    std::vector<std::future<Fact<MetricSamples>>> answers;
    for (std::size_t i = begin; i < std::min(count, begin + kPluginsAtOnce); ++i) {
      answers.push_back(std::async(std::launch::async, [&, pod = pods.value()[i].ref] {
        return metrics_of_pod(pod, cluster, access, flags.port);
      }));
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      add_read(answers[i].get(), &nodes.at(pods.value()[begin + i].node), read);
    }
  }
  if (count < pods->size()) {
    read.problems.push_back(
        fmt::format("the pods are on {} nodes, of which {} were asked; -n, -l or the names of pods "
                    "select fewer",
                    pods->size(), count));
  }
  return read;
}

}  // namespace mgpu::kubectl
