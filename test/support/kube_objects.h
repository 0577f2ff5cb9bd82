// Minimal Kubernetes objects as JSON, valid for a real API server.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mgpu::test {

using Amounts = std::map<std::string, std::string>;  // resource -> quantity

std::string node_json(std::string_view name, const Amounts& capacity = {});
// One container, "app", with these limits.
std::string pod_json(std::string_view name, const Amounts& limits = {});
// For POST pods/NAME/binding. Without a uid there is no precondition.
std::string binding_json(std::string_view pod, std::string_view node, std::string_view uid = "",
                         const std::map<std::string, std::string>& annotations = {});

}  // namespace mgpu::test
