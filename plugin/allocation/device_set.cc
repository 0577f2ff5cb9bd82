#include "plugin/allocation/device_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/text.h"

namespace mgpu::plugin {

namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr std::size_t kBytesPerDevice = 13;  // without the id

}  // namespace

Result<DeviceSet> DeviceSet::of(std::span<const std::string> ids) {
  if (ids.empty()) return error("no device ids; at least one was expected");
  if (ids.size() > kDevicesPerRequestMax) {
    return error(
        fmt::format("{} device ids; at most {} were expected", ids.size(), kDevicesPerRequestMax));
  }
  for (const std::string& id : ids) {
    if (!id.empty() && id.size() <= kDeviceIdBytesMax) continue;
    return error(
        fmt::format("device id {} must have 1 to {} characters", in_quotes(id), kDeviceIdBytesMax));
  }
  DeviceSet set;
  set.ids_.assign(ids.begin(), ids.end());
  // kubelet sends the devices in any order, on which the hash must not depend.
  std::ranges::sort(set.ids_);
  const auto repeated = std::ranges::unique(set.ids_);
  set.ids_.erase(repeated.begin(), repeated.end());
  MGPU_CHECK(!set.ids_.empty() && set.ids_.size() <= ids.size(), "each id once, and none lost");
  MGPU_DEBUG_CHECK(std::ranges::is_sorted(set.ids_), "equal sets have their ids in one order");
  return set;
}

std::string DeviceSet::hash() const {
  return sha256_hex(fmt::format("{}", fmt::join(ids_, ","))).substr(0, kHashDigits);
}

std::string core_device_id(std::int64_t n) {
  return "c" + std::to_string(n);
}

std::string memory_device_id(std::int64_t n) {
  MGPU_DEBUG_CHECK(n >= 0, "devices are counted from 0");
  std::string id;
  auto rest = static_cast<std::size_t>(n);
  do {
    id.insert(id.begin(), kDigits[rest % kDigits.size()]);
    rest /= kDigits.size();
  } while (rest > 0);
  MGPU_DEBUG_CHECK(id.size() <= kDeviceIdBytesMax, "kubelet accepts the id of every device");
  return id;
}

std::size_t memory_list_bytes(std::int64_t count) {
  // Devices with ids of one digit, of two, and so on.
  std::size_t bytes = 0;
  std::size_t id_bytes = 1;
  const auto base = static_cast<std::int64_t>(kDigits.size());
  for (std::int64_t first = 0, past = base; first < count; first = past, past *= base, ++id_bytes) {
    const std::int64_t devices = std::min(past, count) - first;
    bytes += static_cast<std::size_t>(devices) * (kBytesPerDevice + id_bytes);
  }
  return bytes;
}

}  // namespace mgpu::plugin
