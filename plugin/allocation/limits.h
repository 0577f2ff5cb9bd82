// Limits of one allocation, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::plugin {

// Devices of one Allocate or PreStart: 100 of each of 64 cards.
inline constexpr std::size_t kDevicesPerRequestMax = 6'400;
// "ID <= 63 chars" (kubelet api.proto v1beta1, Device.ID).
inline constexpr std::size_t kDeviceIdBytesMax = 63;
// The path of a device or a mount, or a value of the environment (PATH_MAX of linux/limits.h).
inline constexpr std::size_t kPathBytesMax = 4'096;
// kubelet uses gRPC's default of 4 MiB (kubernetes
// pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go, dial), and drops a plugin with a larger
// list without an error to the plugin.
inline constexpr std::size_t kDeviceListBytesMax = 4'194'304;

}  // namespace mgpu::plugin
