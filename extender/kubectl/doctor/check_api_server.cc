// The version of the API server.
#include <fmt/format.h>

#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {
namespace {

// kube-apiserver before 1.25.9 and 1.26.4 ignores the resourceVersion of a binding
// (extender/bind/precondition_check.h).
bool ignores_preconditions(const Version& server) {
  return server.major == 1 &&
         ((server.minor == 25 && server.patch < 9) || (server.minor == 26 && server.patch < 4));
}

}  // namespace

Findings check_api_server(const Facts& facts) {
  if (!facts.server.known()) {
    return {
        {Level::kError,
         fmt::format("the API server cannot be asked for its version: {}", facts.server.problem()),
         kCheckKubeconfig}};
  }
  const Version& server = facts.server.value();
  if (server < Version{1, 25, 0, ""}) {
    return {{Level::kError,
             fmt::format("the API server has version {}, and mgpu needs Kubernetes 1.25.9, 1.26.4, "
                         "1.27 or later",
                         server.text),
             kUpgradeServer}};
  }
  if (ignores_preconditions(server)) {
    return {{Level::kError,
             fmt::format("the API server has version {}, which ignores metadata.resourceVersion of "
                         "a binding; mgpu needs Kubernetes 1.25.9, 1.26.4, 1.27 or later",
                         server.text),
             kUpgradeServer}};
  }
  return {{Level::kOk, fmt::format("the API server answers, and has version {}", server.text)}};
}

}  // namespace mgpu::kubectl
