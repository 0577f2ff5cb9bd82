// The remedies of findings, which Events of the extender and `kubectl mgpu drift` both contain.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mgpu::extender {

// `drift` is the name of a drift, such as "no-annotations".
inline std::string_view drift_remedy(std::string_view drift) {
  return drift == "changed-annotations"
             ? "write the annotations of the binding again, or delete the pod"
             : "delete the pod";
}

// `cards` are the indices of `count` cards of one node, such as "0,2".
inline std::string overfull_sentence(const std::string& cards, std::size_t count) {
  return (count == 1 ? "card " + cards + " has more in use than its capacity; "
                     : "cards " + cards + " have more in use than their capacity; ") +
         "delete pods that were bound without mgpu-extender, or before the cards of the node "
         "changed";
}

}  // namespace mgpu::extender
