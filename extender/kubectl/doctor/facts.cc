#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

std::string Facts::extender_flag(const std::string& flag) const {
  if (!extender_pods.known() || extender_pods->empty()) return {};
  const auto& arguments = extender_pods->front().arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
    if (arguments[i] == flag) return i + 1 < arguments.size() ? arguments[i + 1] : std::string();
  }
  return {};
}

bool Facts::is_nowhere() const {
  const bool has_no_pods = extender_pods.known() && extender_pods->empty() && plugin_pods.known() &&
                           plugin_pods->empty();
  return !found_here && elsewhere.empty() && replicas.empty() && has_no_pods && lease.absent();
}

}  // namespace mgpu::kubectl
