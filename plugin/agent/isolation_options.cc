#include "plugin/agent/isolation_options.h"

#include <algorithm>
#include <array>

namespace mgpu::plugin {
namespace {

// By the numbers of the modes.
constexpr std::array<std::string_view, 5> kIsolationNames{"auto", "none", "intercept", "mps",
                                                          "driver"};
static_assert(static_cast<std::size_t>(IsolationMode::kDriver) + 1 == kIsolationNames.size());
constexpr std::array<std::string_view, 4> kComputeNames{"none", "burst", "fixed", "mps"};
static_assert(static_cast<std::size_t>(ComputeMode::kMps) + 1 == kComputeNames.size());

template <class Mode>
Mode mode_of(std::string_view name, const auto& names) {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? Mode::kNone : static_cast<Mode>(at - names.begin());
}

}  // namespace

std::string_view to_string(IsolationMode mode) {
  return kIsolationNames.at(static_cast<std::size_t>(mode));
}

IsolationMode isolation_mode(std::string_view name) {
  return mode_of<IsolationMode>(name, kIsolationNames);
}

std::string_view to_string(ComputeMode mode) {
  return kComputeNames.at(static_cast<std::size_t>(mode));
}

ComputeMode compute_mode(std::string_view name) {
  return mode_of<ComputeMode>(name, kComputeNames);
}

ComputeMode compute_with(IsolationMode memory, ComputeMode wanted) {
  switch (memory) {
    case IsolationMode::kMps:
      return ComputeMode::kMps;
    case IsolationMode::kAuto:
    case IsolationMode::kIntercept:
      return wanted;
    case IsolationMode::kDriver:
      return wanted == ComputeMode::kMps ? wanted : ComputeMode::kNone;
    case IsolationMode::kNone:
      break;
  }
  return ComputeMode::kNone;
}

}  // namespace mgpu::plugin
