// Device ids as kubelet hands them out, as a value that does not depend on their order. Pure; any
// thread.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

// The ids of one container and resource, sorted, none twice. kubelet draws them from a Go set:
// their order differs between Allocate, PreStartContainer and PodResources.
class DeviceSet {
 public:
  DeviceSet() = default;
  // Errors: none, too many (kDevicesPerRequestMax), an empty or too long id. Ids given
  // twice count once.
  static Result<DeviceSet> of(std::span<const std::string> ids);

  const std::vector<std::string>& ids() const { return ids_; }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  bool overlaps(const DeviceSet& other) const;
  // The first 16 hexadecimal digits of the SHA-256 of the ids, joined by ",".
  std::string hash() const;
  auto operator<=>(const DeviceSet&) const = default;

 private:
  std::vector<std::string> ids_;
};

// The n-th device of mgpu-core: one percent of some card, of none in particular. "c0", "c1", ...
std::string core_device_id(std::int64_t n);
// The n-th device of mgpu-memory where it is a device-plugin resource: one MiB. As short as can be,
// since every byte counts against kDeviceListBytesMax.
std::string memory_device_id(std::int64_t n);
// Size of kubelet's ListAndWatchResponse with memory devices 0 .. count - 1, all healthy (api.proto
// v1beta1: per device 13 bytes beside the id).
std::size_t memory_list_bytes(std::int64_t count);

}  // namespace mgpu::plugin
