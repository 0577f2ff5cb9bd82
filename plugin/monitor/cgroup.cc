#include "plugin/monitor/cgroup.h"

#include <algorithm>
#include <array>

namespace mgpu::plugin {
namespace {

constexpr std::size_t kContainerIdSize = 64;
constexpr std::size_t kUidSize = 36;
constexpr std::size_t kStaticUidSize = 32;
constexpr std::array<std::size_t, 4> kUidDashes{8, 13, 18, 23};

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool all_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_hex);
}

// 8-4-4-4-12 digits, separated by '-', or by '_' as in systemd's names.
bool is_uuid(std::string_view text) {
  const char dash = text[kUidDashes[0]];
  if (dash != '-' && dash != '_') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool at_dash = std::ranges::find(kUidDashes, i) != kUidDashes.end();
    if (at_dash ? text[i] != dash : !is_hex(text[i])) return false;
  }
  return true;
}

// Returns the uid in names like "pod<uid>" and "kubepods-burstable-pod<uid>.slice", or "".
std::string uid_of(std::string_view part) {
  if (part.ends_with(".slice")) part.remove_suffix(6);
  for (const std::size_t size : {kUidSize, kStaticUidSize}) {
    if (part.size() < size + 3) continue;
    const std::string_view uid = part.substr(part.size() - size);
    const std::string_view before = part.substr(0, part.size() - size);
    if (before != "pod" && !before.ends_with("-pod")) continue;
    if (size == kUidSize ? !is_uuid(uid) : !all_hex(uid)) continue;
    std::string dashed(uid);
    std::ranges::replace(dashed, '_', '-');
    return dashed;
  }
  return {};
}

// Returns the id in names like "<id>" and "cri-containerd-<id>.scope", or "". The runtime's own
// processes (CRI-O's conmon) are not part of the container.
std::string_view id_of(std::string_view part) {
  if (part.ends_with(".scope")) part.remove_suffix(6);
  if (part.size() < kContainerIdSize) return {};
  const std::string_view id = part.substr(part.size() - kContainerIdSize);
  const std::string_view before = part.substr(0, part.size() - kContainerIdSize);
  if (!before.empty() && (before.back() != '-' || before.ends_with("conmon-"))) return {};
  return all_hex(id) ? id : std::string_view();
}

// Calls `visit` with the parts of `text` until it returns false.
template <class Visit>
void each_part(std::string_view text, std::string_view separators, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (!visit(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Returns the outermost pod and the first container in it. The cgroups below may have been created,
// and named, by the container.
std::optional<CgroupContainer> container_in(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  CgroupContainer found;
  each_part(path, "/:", [&](std::string_view part) {
    if (found.uid.empty()) {
      found.uid = PodUid(uid_of(part));
    } else {
      found.container_id = id_of(part);
    }
    return found.container_id.empty();
  });
  if (found.container_id.empty()) return std::nullopt;
  return found;
}

// The smallest rank is used. v1 has one line per hierarchy; kubelet always sets memory and devices.
int rank_of(std::string_view controllers) {
  int rank = controllers.empty() ? 2 : 4;  // empty: v2
  if (controllers == "name=systemd") rank = 3;
  each_part(controllers, ",", [&](std::string_view controller) {
    if (controller == "devices") rank = std::min(rank, 1);
    if (controller == "memory") rank = 0;
    return true;
  });
  return rank;
}

}  // namespace

std::optional<CgroupContainer> container_of(std::string_view text) {
  int best = 5;  // above all ranks
  std::optional<CgroupContainer> container;
  each_part(text, "\n", [&](std::string_view line) {
    // "<hierarchy>:<controllers>:<path>"
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) return true;
    const int rank = rank_of(line.substr(first + 1, second - first - 1));
    if (rank >= best) return true;
    if (auto found = container_in(line.substr(second + 1))) {
      best = rank;
      container = std::move(found);
    }
    return true;
  });
  return container;
}

}  // namespace mgpu::plugin
