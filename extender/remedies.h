// What to do about findings, as the Events of the extender and `kubectl mgpu drift` both say it.
#pragma once

#include <fmt/format.h>

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
inline std::string overfull_sentence(std::string_view cards, std::size_t count) {
  const bool one = count == 1;
  return fmt::format(
      "{} {} {} more in use than {} capacity; delete pods that were bound without mgpu-extender, "
      "or before the cards of the node changed",
      one ? "card" : "cards", cards, one ? "has" : "have", one ? "its" : "their");
}

}  // namespace mgpu::extender
