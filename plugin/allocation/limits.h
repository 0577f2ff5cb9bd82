// Bounds of one allocation, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu::plugin {

// Of one Allocate or PreStart; 64 cards of 100.
inline constexpr std::size_t kDevicesPerRequestMax = 6'400;
// "ID <= 63 chars" (kubelet api.proto v1beta1, Device.ID).
inline constexpr std::size_t kDeviceIdBytesMax = 63;
// Of a device, a mount or a value of the environment (linux/limits.h, PATH_MAX).
inline constexpr std::size_t kPathBytesMax = 4'096;
// kubelet dials plugins with gRPC's default, 4 MiB (kubernetes
// pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go, dial), and drops a plugin whose list is
// larger without telling it.
inline constexpr std::size_t kDeviceListBytesMax = 4'194'304;

}  // namespace mgpu::plugin
