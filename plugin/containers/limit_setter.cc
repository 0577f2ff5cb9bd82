#include "plugin/containers/limit_setter.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/contract.h"
#include "plugin/monitor/cgroup.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

bool has_parent_parts(std::string_view path) {
  return path.ends_with("/..") || path.find("/../") != path.npos;
}

}  // namespace

std::vector<CardLimit> limits_of(const Record& record) {
  std::vector<CardLimit> limits;
  for (const CardGrant& grant : record.cards) {
    if (grant.share.core < kWholeCard) limits.push_back({grant.uuid, grant.share.memory});
  }
  return limits;
}

Result<std::string> cgroup_v2_path(std::string_view text) {
  constexpr std::string_view kV2 = "0::/";
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (!text.starts_with(kV2) || text.find('\n') != text.npos) {
    return error("the limits of the driver need cgroup v2 alone, and the node has cgroup v1");
  }
  const std::string path(text.substr(kV2.size() - 1));
  MGPU_DEBUG_CHECK(path.starts_with('/'), "the path of a cgroup begins at the root");
  if (has_parent_parts(path)) {
    return error("the plugin does not run in the cgroup namespace of the node");
  }
  return path;
}

LimitSetter::LimitSetter(const Records& records, MemoryLimits& limits, std::string proc_folder)
    : records_(records), limits_(limits), proc_folder_(std::move(proc_folder)) {}

Result<void> LimitSetter::set(const AllocationId& id, std::int64_t pid) {
  const auto record = records_.find_bound(id);
  if (!record) {
    return error(fmt::format("allocation {} is not that of a started container", id.str()));
  }
  MGPU_DEBUG_CHECK(record->bound() && record->id == id, "the limits are those of the container");
  const auto limits = limits_of(*record);
  if (limits.empty()) return {};
  const auto cgroup = cgroup_of(pid, record->owner->uid);
  if (!cgroup) return cgroup.error();
  Limited limited{*cgroup, {}};
  for (const CardLimit& limit : limits) limited.cards.push_back(limit.card);
  {
    const MutexLock lock(mutex_);
    // Before the call: if it fails, some of several cards may be limited, which clear() undoes.
    limited_[id] = std::move(limited);
  }
  if (auto set = limits_.set(*cgroup, limits); !set) return set;
  log_info("GPU memory limited", {{"pod", to_string(record->owner->pod)},
                                  {"container", record->owner->container},
                                  {"allocation", id.str()},
                                  {"cgroup", *cgroup}});
  return {};
}

Result<std::string> LimitSetter::cgroup_of(std::int64_t pid, const PodUid& uid) const {
  const auto text = read_file(fmt::format("{}/{}/cgroup", proc_folder_, pid), kProcFileBytesMax);
  if (!text) return text.error();
  const auto path = cgroup_v2_path(*text);
  if (!path) return path;
  const auto container = container_of(*text);
  if (!container || container->uid != uid) {
    return error(fmt::format("process {} in cgroup {} is not of a container of pod uid {}", pid,
                             in_quotes(*path), uid.str()));
  }
  const std::string folder = limits_.cgroup_root() + *path;
  std::error_code unreadable;
  if (std::filesystem::is_directory(folder, unreadable)) return folder;
  return error(fmt::format("the cgroup {} of process {} does not exist", in_quotes(folder), pid));
}

void LimitSetter::clear(const AllocationId& id) {
  std::optional<Limited> limited;
  {
    const MutexLock lock(mutex_);
    const auto at = limited_.find(id);
    if (at == limited_.end()) return;
    limited = std::move(at->second);
    limited_.erase(at);
  }
  std::error_code unreadable;
  // The limits of a cgroup end with it.
  if (!std::filesystem::exists(limited->cgroup, unreadable)) return;
  const auto cleared = limits_.clear(limited->cgroup, limited->cards);
  if (cleared) return;
  log_warn("the limits of an ended container are not cleared",
           {{"allocation", id.str()}, {"problem", cleared.error().message}});
}

}  // namespace mgpu::plugin
