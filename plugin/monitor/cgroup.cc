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

// 8-4-4-4-12 with one kind of dash throughout: systemd's names have '_' for '-'.
bool is_uuid(std::string_view text) {
  const char dash = text[kUidDashes[0]];
  if (dash != '-' && dash != '_') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool at_dash = std::ranges::find(kUidDashes, i) != kUidDashes.end();
    if (at_dash ? text[i] != dash : !is_hex(text[i])) return false;
  }
  return true;
}

// The uid in "pod<uid>", "kubepods-burstable-pod<uid>.slice" and their like; empty where `part` is
// none of them.
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

// The id in "<id>", "cri-containerd-<id>.scope" and their like; empty where there is none, and for
// the runtime's own processes beside a container (CRI-O's conmon).
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

// The outermost pod, and the first container in it: what follows may be named by the container
// itself, where it may make cgroups of its own.
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

struct Line {
  std::string_view controllers;
  std::string_view path;
};

// "<hierarchy>:<controllers>:<path>"
std::optional<Line> read_line(std::string_view text) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return Line{text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

// Smaller is better. v1 has one line per hierarchy; kubelet keeps these two in order.
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
  constexpr int kNone = 5;
  int best = kNone;
  std::optional<CgroupContainer> container;
  each_part(text, "\n", [&](std::string_view line) {
    const auto read = read_line(line);
    if (!read || rank_of(read->controllers) >= best) return true;
    auto found = container_in(read->path);
    if (!found) return true;
    best = rank_of(read->controllers);
    container = std::move(found);
    return true;
  });
  return container;
}

}  // namespace mgpu::plugin
