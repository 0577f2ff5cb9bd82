// Reads the facts from JSON. Absent members are empty. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

// Errors of all: the text is not JSON; a member has a wrong type.
Result<Version> read_server_version(std::string_view json);
Result<ProgramPod> read_program_pod(std::string_view json);
Result<LeaseFacts> read_lease_facts(std::string_view json);
Result<SliceFacts> read_slice(std::string_view json);
Result<std::string> read_name(std::string_view json);
Result<std::string> read_namespace(std::string_view json);
// Finds the installer by the labels and annotations of one of its objects.
Result<Installer> read_installer(std::string_view json);
Result<DeviceClass> read_device_class(std::string_view json);
Result<PolicyBinding> read_policy_binding(std::string_view json);
Result<CheckedNode> read_checked_node(std::string_view json);
Result<GpuPod> read_gpu_pod(std::string_view json);
// The addresses of the extenders with a bindVerb, in a configuration of kube-scheduler.
std::vector<std::string> binding_extenders(const std::string& yaml);
// Reads, of the data of a ConfigMap, the configuration with most such extenders.
Result<SchedulerConfig> read_scheduler_config(std::string_view config_map);
// The answer of kubelet to GET /configz.
Result<std::map<std::string, bool>> read_feature_gates(std::string_view json);

// Answers of the extender.
Result<std::string> read_program_version(std::string_view json);
Result<Readiness> read_readiness(std::string_view json);
Result<InspectedCluster> read_inspected_cluster(std::string_view json);

// The value in `body`, if there is one. `what` begins the sentence of a text that cannot be read.
template <class T>
Fact<T> read_fact(const Fact<std::string>& body, const std::string& what,
                  Result<T> (*read)(std::string_view json)) {
  if (!body.known()) return body.as<T>();
  auto value = read(body.value());
  if (value) return *std::move(value);
  return {Missing::kFailed, what + ": " + value.error().message};
}

}  // namespace mgpu::kubectl
