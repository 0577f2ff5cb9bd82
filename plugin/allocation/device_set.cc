#include "plugin/allocation/device_set.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/text.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {

namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr std::size_t kBytesBesideId = 13;

std::size_t id_length(std::int64_t n) {
  std::size_t length = 1;
  for (auto rest = static_cast<std::size_t>(n) / kDigits.size(); rest > 0; rest /= kDigits.size()) {
    ++length;
  }
  return length;
}

Result<void> check_id(const std::string& id) {
  if (!id.empty() && id.size() <= kDeviceIdBytesMax) return {};
  return error("device id " + in_quotes(id) + " must have 1 to " +
               std::to_string(kDeviceIdBytesMax) + " characters");
}

}  // namespace

Result<DeviceSet> DeviceSet::of(std::span<const std::string> ids) {
  if (ids.empty()) return error("no device ids; at least one was expected");
  if (ids.size() > kDevicesPerRequestMax) {
    return error(std::to_string(ids.size()) + " device ids; at most " +
                 std::to_string(kDevicesPerRequestMax) + " were expected");
  }
  for (const std::string& id : ids) {
    if (auto ok = check_id(id); !ok) return ok.error();
  }
  DeviceSet set;
  set.ids_.assign(ids.begin(), ids.end());
  std::ranges::sort(set.ids_);
  const auto twice = std::ranges::unique(set.ids_);
  set.ids_.erase(twice.begin(), twice.end());
  MGPU_CHECK(!set.ids_.empty() && set.ids_.size() <= ids.size(), "each id once, and none lost");
  return set;
}

bool DeviceSet::overlaps(const DeviceSet& other) const {
  auto left = ids_.begin();
  auto right = other.ids_.begin();
  while (left != ids_.end() && right != other.ids_.end()) {
    if (*left == *right) return true;
    ++(*left < *right ? left : right);
  }
  return false;
}

std::string DeviceSet::hash() const {
  constexpr std::size_t kHashDigits = 16;
  std::string joined;
  for (const std::string& id : ids_) joined += (joined.empty() ? "" : ",") + id;
  return sha256_hex(joined).substr(0, kHashDigits);
}

std::string core_device_id(std::int64_t n) {
  return "c" + std::to_string(n);
}

std::string memory_device_id(std::int64_t n) {
  std::string id(id_length(n), '0');
  auto rest = static_cast<std::size_t>(n);
  for (auto at = id.rbegin(); at != id.rend(); ++at, rest /= kDigits.size()) {
    *at = kDigits[rest % kDigits.size()];
  }
  return id;
}

std::size_t memory_list_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  std::int64_t first = 0;
  for (std::int64_t past = 64; first < count; past *= 64) {
    const std::int64_t here = std::min(past, count) - first;
    bytes += static_cast<std::size_t>(here) * (kBytesBesideId + id_length(first));
    first += here;
  }
  return bytes;
}

}  // namespace mgpu::plugin
