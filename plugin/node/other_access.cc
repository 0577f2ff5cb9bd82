#include "plugin/node/other_access.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/contract/quantity.h"

namespace mgpu::plugin {
namespace {

constexpr const char* kDefaultRuntime = "DefaultRuntime";
constexpr const char* kRuntimeClass = "RuntimeClass";
constexpr const char* kVolumeMounts = "VolumeMounts";
constexpr const char* kDevicePlugin = "NvidiaDevicePlugin";
constexpr const char* kDynamicResources = "NvidiaDRADriver";

// Resources with other names below nvidia.com are no cards, such as network interfaces.
bool is_whole_card_resource(std::string_view name) {
  return name == "nvidia.com/gpu" || name.starts_with("nvidia.com/gpu.");
}

bool is_card_resource(std::string_view name) {
  return is_whole_card_resource(name) || name.starts_with("nvidia.com/mig-");
}

// The resources with such names of which the node has any.
std::vector<std::string> offered(const kube::StringMap& capacity,
                                 bool (*is_counted)(std::string_view)) {
  std::vector<std::string> resources;
  for (const auto& [name, amount] : capacity) {
    if (!is_counted(name)) continue;
    // An amount that cannot be read is not known to be none.
    const auto count = parse_whole_quantity("capacity", amount);
    if (!count || *count > 0) resources.push_back(name);
  }
  return resources;
}

void add_runtime(const AccessFacts& facts, AccessReport& report) {
  if (facts.nvidia_handlers.empty()) return;
  const bool by_default =
      facts.default_handler && std::ranges::find(facts.nvidia_handlers, *facts.default_handler) !=
                                   facts.nvidia_handlers.end();
  if (facts.toolkit.by_environment && by_default) {
    report.found.push_back(
        {kDefaultRuntime,
         fmt::format("each container with the variable NVIDIA_VISIBLE_DEVICES, which CUDA images "
                     "set, gets cards: {} is the default of the container runtime; set {} = false "
                     "in the config.toml of nvidia-container-runtime, or another default",
                     *facts.default_handler, kAcceptVariable)});
  } else if (facts.toolkit.by_environment) {
    report.found.push_back(
        {kRuntimeClass,
         fmt::format("a pod with a RuntimeClass of the handler {} and the variable "
                     "NVIDIA_VISIBLE_DEVICES gets cards; set {} = false in the config.toml of "
                     "nvidia-container-runtime, or remove the handler",
                     fmt::join(facts.nvidia_handlers, ", "), kAcceptVariable)});
  }
  if (facts.toolkit.by_mounts) {
    report.found.push_back(
        {kVolumeMounts,
         fmt::format("a container that mounts a volume at /var/run/nvidia-container-devices/all "
                     "gets cards; set {} = false in the config.toml of nvidia-container-runtime",
                     kAcceptVolumes)});
  }
}

void add_device_plugin(const AccessFacts& facts, AccessReport& report) {
  const std::vector<std::string> resources = offered(facts.capacity, is_card_resource);
  if (resources.empty()) return;
  report.found.push_back(
      {kDevicePlugin,
       fmt::format("the node has {}, so another device plugin allocates its cards; remove that "
                   "device plugin from the node",
                   fmt::join(resources, ", "))});
}

void add_dynamic_resources(const AccessFacts& facts, AccessReport& report) {
  if (!facts.has_resource_slice) return;
  report.found.push_back(
      {kDynamicResources, fmt::format("the node has a ResourceSlice of {}, so that driver gives "
                                      "out its cards; remove the driver from the node",
                                      kDraDriver)});
}

std::string messages_of(const std::vector<OtherAccess>& found) {
  std::vector<std::string> messages;
  std::ranges::transform(found, std::back_inserter(messages), &OtherAccess::message);
  return fmt::format("{}", fmt::join(messages, "; "));
}

}  // namespace

const std::vector<std::string>& other_access_reasons() {
  static const std::vector<std::string> reasons = {kDefaultRuntime, kRuntimeClass, kVolumeMounts,
                                                   kDevicePlugin, kDynamicResources};
  return reasons;
}

std::string given_by_another(const kube::StringMap& capacity) {
  const std::vector<std::string> resources = offered(capacity, is_whole_card_resource);
  if (resources.empty()) return {};
  return fmt::format("another device plugin gives it out as {}; remove that from the node",
                     resources.front());
}

std::string given_by_another(std::span<const kube::Pod> pods) {
  const auto has_cards = [](const kube::Container& container) {
    return !offered(container.limits, is_whole_card_resource).empty();
  };
  // Whoever may create pods can have one on this node that kubelet then rejects.
  const bool given = std::ranges::any_of(pods, [&](const kube::Pod& pod) {
    return pod.phase == "Running" && (std::ranges::any_of(pod.containers, has_cards) ||
                                      std::ranges::any_of(pod.init_containers, has_cards));
  });
  return given ? "a pod of the node has cards of another device plugin; delete the pod" : "";
}

AccessReport access_report(const AccessFacts& facts) {
  AccessReport report;
  report.unknown = facts.problems;
  add_runtime(facts, report);
  add_device_plugin(facts, report);
  add_dynamic_resources(facts, report);
  MGPU_DEBUG_CHECK(std::ranges::all_of(report.found,
                                       [](const OtherAccess& access) {
                                         const auto& all = other_access_reasons();
                                         return std::ranges::find(all, access.reason) != all.end();
                                       }),
                   "the metrics have each reason");
  return report;
}

kube::Condition exclusive_condition(const AccessReport& report) {
  const std::string type(kExclusiveConditionType);
  if (!report.found.empty()) {
    return {type, "False", report.found.front().reason, messages_of(report.found)};
  }
  if (!report.unknown.empty()) {
    return {type, "Unknown", "NotChecked", fmt::format("{}", fmt::join(report.unknown, "; "))};
  }
  return {type, "True", "OnlyMGPU", "no other way to the cards of this node was found"};
}

}  // namespace mgpu::plugin
