// The kinds of containers as texts, in JSON of both programs. Pure.
#pragma once

#include <array>
#include <string_view>

#include "common/contract/gpu_request.h"

namespace mgpu {

// By the number of the kind.
inline constexpr std::array<std::string_view, 3> kContainerKinds = {"init", "sidecar", "app"};
static_assert(static_cast<std::size_t>(ContainerKind::kApp) + 1 == kContainerKinds.size());

inline std::string_view to_string(ContainerKind kind) {
  return kContainerKinds.at(static_cast<std::size_t>(kind));
}

}  // namespace mgpu
