// Limits of kubectl-mgpu, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::kubectl {

// An object's name has at most 253 bytes, and is shown whole.
inline constexpr std::size_t kShownNameMax = 253;
// A sentence that quotes a message of the API server or of a device plugin.
inline constexpr std::size_t kShownSentenceMax = 2'048;
// Objects that a table names for one finding. JSON has all of them.
inline constexpr std::size_t kShownObjectsMax = 5;

// Pages of one collection: a million objects. More are an API server that repeats its pages.
inline constexpr std::size_t kPagesMax = 2'000;
// Requests in flight at once. kube-apiserver by default lets a user have some tens of them.
inline constexpr std::size_t kRequestsAtOnce = 16;

// The time in which `kubectl port-forward` must say which port it has chosen. A credential plugin
// may ask the user to log in meanwhile.
inline constexpr std::chrono::seconds kPortForwardTimeout{30};
// Between SIGTERM and SIGKILL.
inline constexpr std::chrono::milliseconds kPortForwardEndTimeout{2'000};
// Its output is a line for each address, and the errors of connections.
inline constexpr std::size_t kPortForwardOutputMax = std::size_t{16} << 10;

}  // namespace mgpu::kubectl
