#include "extender/bind/bindable_pod.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace mgpu::extender {
namespace {

constexpr std::size_t kTextBytes = sizeof(std::string);
// A node of a map with its two texts.
constexpr std::size_t kMapNodeBytes = 96;

std::size_t bytes_of(const std::string& text) {
  return kTextBytes + text.capacity();
}

std::size_t bytes_of(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += bytes_of(text);
  return bytes;
}

std::size_t bytes_of(const CardSelector& selector) {
  return bytes_of(selector.models) + bytes_of(selector.models_excluded) + bytes_of(selector.uuids) +
         bytes_of(selector.uuids_excluded);
}

}  // namespace

Result<BindablePod> read_bindable_pod(const kube::Pod& pod, const VerbOptions& options) {
  if (!names_cards(pod, options.contract)) {
    return error(fmt::format(
        "pod {}: no container names {} or {}, so that kube-scheduler itself "
        "binds it",
        to_string(pod.ref()), options.contract.core_resource, options.contract.memory_resource));
  }
  if (pod.metadata.resource_version.empty()) {
    return error(
        fmt::format("pod {}: metadata.resourceVersion is missing, which a binding needs as "
                    "precondition",
                    to_string(pod.ref())));
  }
  auto request = read_pod_request(pod, options);
  if (!request) return request.error();
  return BindablePod{.ref = pod.ref(),
                     .uid = pod.uid(),
                     .resource_version = pod.metadata.resource_version,
                     .nominated = NodeName(pod.nominated_node),
                     .json_bytes = pod.json_bytes,
                     .request = std::move(*request),
                     .priority = pod.priority,
                     .start_time = pod.start_time,
                     .labels = pod.metadata.labels};
}

bool same_request(const BindablePod& a, const BindablePod& b) {
  return a.request.request == b.request.request && a.request.resources == b.request.resources &&
         a.request.policy.node == b.request.policy.node &&
         a.request.policy.card == b.request.policy.card;
}

// The pods that are kept are bounded in bytes, since tenants choose the length of these texts.
std::size_t bytes_of(const BindablePod& pod) {
  std::size_t bytes = sizeof(pod) + pod.ref.name.capacity() + pod.ref.name_space.capacity() +
                      pod.uid.str().capacity() + pod.resource_version.capacity() +
                      pod.start_time.capacity() + pod.request.request.policy.capacity() +
                      bytes_of(pod.request.request.selector);
  for (const ContainerRequest& container : pod.request.request.containers) {
    bytes += sizeof(container) + container.name.capacity();
  }
  for (const auto& [name, value] : pod.labels) {
    bytes += kMapNodeBytes + name.capacity() + value.capacity();
  }
  return bytes;
}

}  // namespace mgpu::extender
