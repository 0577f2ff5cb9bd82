// What can be seen of kube-scheduler's configuration: ConfigMaps, and the last words of pods of it
// that do not start. A static pod's own file is on its machine only.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/read_facts.h"

namespace mgpu::kubectl {
namespace {

// A message of pkg/scheduler/apis/config/validation of Kubernetes.
constexpr const char* kTwoBinders = "only one extender can implement bind";
constexpr const char* kLogTail = "/log?tailLines=20&limitBytes=65536";

}  // namespace

Fact<std::vector<SchedulerConfig>> collect_scheduler_configs(Api& api, const Facts& facts) {
  std::vector<SchedulerConfig> configs;
  for (const std::string& name_space : std::set<std::string>{"kube-system", facts.name_space}) {
    const auto listed = api.list({fmt::format("/api/v1/namespaces/{}/configmaps", name_space), ""},
                                 fmt::format("list ConfigMaps in namespace {}", name_space),
                                 [&](const std::string& text) {
                                   const auto config = read_scheduler_config(text);
                                   if (config && config->binders.size() > 1)
                                     configs.push_back(*config);
                                 });
    if (!listed.known()) return listed.as<std::vector<SchedulerConfig>>();
  }
  return configs;
}

std::vector<std::string> collect_schedulers_with_two_binders(Api& api) {
  std::vector<std::string> pods;
  api.list({"/api/v1/namespaces/kube-system/pods", "", "component=kube-scheduler"},
           "list pods of kube-scheduler", [&](const std::string& text) {
             const auto pod = read_program_pod(text);
             if (pod && !pod->ready) pods.push_back(pod->ref.name);
           });
  std::erase_if(pods, [&](const std::string& name) {
    const auto log = api.get("/api/v1/namespaces/kube-system/pods/" + name + kLogTail,
                             "read the log of kube-scheduler");
    return !log.known() || log.value().find(kTwoBinders) == std::string::npos;
  });
  return pods;
}

}  // namespace mgpu::kubectl
