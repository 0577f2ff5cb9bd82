// The remedies of findings, which Events of the extender and `kubectl mgpu drift` both contain.
#pragma once

#include <string_view>

namespace mgpu::extender {

// `drift` is the name of a drift, such as "no-annotations".
inline std::string_view drift_remedy(std::string_view drift) {
  return drift == "changed-annotations"
             ? "write the annotations of the binding again, or delete the pod"
             : "delete the pod";
}

}  // namespace mgpu::extender
