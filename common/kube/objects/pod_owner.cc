#include "common/kube/objects/pod_owner.h"

#include <algorithm>
#include <string_view>

namespace mgpu::kube {
namespace {

constexpr std::string_view kTemplateHash = "pod-template-hash";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether the text has 1 to `most` letters, digits and characters of `others`.
bool is_name(std::string_view text, std::size_t most, std::string_view others) {
  return !text.empty() && text.size() <= most && std::ranges::all_of(text, [others](char c) {
    return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
  });
}

// The name of the Deployment of a ReplicaSet; empty: it is of none.
std::string_view deployment_of(std::string_view replica_set, const StringMap& labels) {
  const auto hash = labels.find(kTemplateHash);
  if (hash == labels.end() || hash->second.empty()) return {};
  const std::string_view value = hash->second;
  if (!replica_set.ends_with(value)) return {};
  replica_set.remove_suffix(value.size());
  if (!replica_set.ends_with('-')) return {};
  replica_set.remove_suffix(1);
  return replica_set;
}

}  // namespace

PodOwner owner_of(const Pod& pod) {
  const auto& controller = pod.metadata.controller;
  const bool is_known = controller && is_name(controller->kind, kOwnerKindMax, "-.") &&
                        is_name(controller->name, kOwnerNameMax, "-.:");
  if (!is_known) return {"Pod", pod.metadata.name};
  if (controller->kind == "ReplicaSet") {
    const std::string_view deployment = deployment_of(controller->name, pod.metadata.labels);
    if (!deployment.empty()) return {"Deployment", std::string(deployment)};
  }
  return {controller->kind, controller->name};
}

}  // namespace mgpu::kube
