// Device ids of kubelet as a value that does not depend on their order. Pure; any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

inline constexpr std::size_t kHashDigits = 16;

// The ids of one container and resource, sorted, none twice. kubelet keeps them in a Go set, so
// that their order differs between Allocate, PreStartContainer and PodResources.
class DeviceSet {
 public:
  DeviceSet() = default;
  // Errors: no ids, more than kDevicesPerRequestMax, an empty or too long id. An id that occurs
  // twice counts once.
  static Result<DeviceSet> of(std::span<const std::string> ids);

  const std::vector<std::string>& ids() const { return ids_; }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  // The first kHashDigits hexadecimal digits of the SHA-256 of the ids, joined by ",".
  std::string hash() const;
  auto operator<=>(const DeviceSet&) const = default;

 private:
  std::vector<std::string> ids_;
};

// The n-th device of mgpu-core: one percent of a card, of no card in particular. "c0", "c1", ...
std::string core_device_id(std::int64_t n);
// The n-th device of mgpu-memory if it is a device-plugin resource: one MiB. Ids are as short as
// possible, since every byte counts against kDeviceListBytesMax.
std::string memory_device_id(std::int64_t n);
// Size of kubelet's ListAndWatchResponse with memory devices 0 .. count - 1, all healthy (api.proto
// v1beta1: per device 13 bytes in addition to the id).
std::size_t memory_list_bytes(std::int64_t count);

}  // namespace mgpu::plugin
