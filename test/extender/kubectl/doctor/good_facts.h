// The facts of an installation without findings, for tests that change one of them.
#pragma once

#include <map>
#include <string>

#include "extender/kubectl/doctor/facts.h"

namespace mgpu::test {

inline constexpr const char* kHolder = "mgpu-extender-1_0123456789abcdef";
inline constexpr const char* kDomain = "vke.volcengine.com";

// The time of the facts.
kubectl::Time now();

// Two extenders, of which mgpu-extender-1 leads, and the node gpu-1 with two cards and one pod.
kubectl::Facts good_facts();

// A pod that requests 50 % and 1024 MiB of a card, with these annotations (without the domain).
kubectl::GpuPod gpu_pod(const std::string& name, const std::string& node,
                        const std::map<std::string, std::string>& annotations);

kubectl::ProgramPod program_pod(const std::string& name, const std::string& node);
kubectl::CheckedNode gpu_node(const std::string& name);

}  // namespace mgpu::test
