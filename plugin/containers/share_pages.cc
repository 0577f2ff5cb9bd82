#include "plugin/containers/share_pages.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "plugin/share/look.h"
#include "plugin/share/turn_page.h"

namespace mgpu::plugin {
namespace {

constexpr std::int64_t kMiBytes = std::int64_t{1} << 20;

using Uuid = std::uint8_t[16];

// A card of which the container has all the compute is nobody else's, and needs no limit. The
// library needs its pages all the same.
std::uint64_t limit_of(const CardGrant& grant) {
  constexpr std::uint64_t kMost = share::kUnitsMax * share::kUnit;
  if (grant.share.core >= kWholeCard) return kMost;
  return std::min(static_cast<std::uint64_t>(grant.share.memory.value() * kMiBytes), kMost);
}

// A container that still has a mount of it keeps that until it ends.
void unmount(const std::string& folder) {
  while (::umount2(folder.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
}

// Whether the mount that has the folder passes mounts on (Documentation/filesystems/proc.rst of
// Linux, /proc/<pid>/mountinfo: the fifth field is the mount point, "shared:" an optional one).
bool is_shared(const std::string& folder) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::size_t longest = 0;
  bool shared = false;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) fields >> field;
    const bool has_folder = folder == field || field == "/" || folder.starts_with(field + "/");
    if (!has_folder || field.size() < longest) continue;
    longest = field.size();
    shared = line.substr(0, line.find(" - ")).find(" shared:") != line.npos;
  }
  return shared;
}

// As large as its files, which are whole pages of memory.
std::string mount_options(const Record& record, bool turns) {
  MGPU_DEBUG_CHECK(!record.cards.empty(), "a file system without a size has no limit");
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto rounded = [page](std::size_t size) { return (size + page - 1) / page * page; };
  std::size_t of_card = rounded(sizeof(share::LimitsPage)) + rounded(sizeof(share::UsagePage));
  if (turns) of_card += rounded(sizeof(share::TurnPage)) + rounded(sizeof(share::ActivityPage));
  // The root, and a folder with its files for each card.
  const std::size_t files = turns ? 4 : 2;
  return fmt::format("size={},nr_inodes={},mode=0755", of_card * record.cards.size(),
                     1 + (1 + files) * record.cards.size());
}

}  // namespace

bool can_have_pages(const CardUuid& card) {
  Uuid uuid;
  char name[41];
  if (!share::read_uuid(card.str().c_str(), uuid)) return false;
  share::write_uuid(uuid, name);
  return card.str() == name || card.str() == "MIG-" + std::string(name + 4);
}

Result<void> check_mounts_of_node(const std::string& folder, const std::string& proc_folder) {
  std::error_code unreadable;
  const auto own = std::filesystem::read_symlink("/proc/self/ns/mnt", unreadable);
  const auto of_node = std::filesystem::read_symlink(proc_folder + "/1/ns/mnt", unreadable);
  if (!unreadable && own == of_node) return {};
  if (is_shared(folder)) return {};
  return error(fmt::format(
      "what is mounted below {} in this container is not there on the node; mount that folder with "
      "mountPropagation: Bidirectional",
      folder));
}

// Whether all pages are there, whole and of this version.
bool SharePages::complete(const Record& record, bool turns) const {
  return std::ranges::all_of(record.cards, [&](const CardGrant& grant) {
    Uuid uuid;
    share::Look look;
    const std::string folder = folder_of(record.id, grant.uuid);
    return share::read_uuid(grant.uuid.str().c_str(), uuid) &&
           share::look_at(folder.c_str(), uuid, &look) == nullptr &&
           look.limit_bytes == limit_of(grant) && share::have_turns(folder.c_str(), uuid) == turns;
  });
}

Result<void> SharePages::prepare(const Record& record, bool turns) const {
  const std::string folder = folder_of(record.id);
  if (!complete(record, turns)) {
    unmount(folder);
    if (auto made = make(record, turns); !made) {
      remove(record.id);
      return made;
    }
  }
  for (const CardGrant& grant : record.cards) set_overhead(record.id, grant.uuid, MiB());
  return {};
}

Result<void> SharePages::make(const Record& record, bool turns) const {
  const std::string folder = folder_of(record.id);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return error(fmt::format("cannot make {}: {}", folder, failed.message()));
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  const std::string options = mount_options(record, turns);
  if (::mount("mgpu-share", folder.c_str(), "tmpfs", kFlags, options.c_str()) != 0) {
    return error(fmt::format("cannot mount a file system in memory at {}: {}", folder,
                             std::strerror(errno)));
  }
  for (const CardGrant& grant : record.cards) {
    auto made = make_of_card(folder_of(record.id, grant.uuid), grant, turns);
    if (!made) return made;
  }
  return {};
}

Result<void> SharePages::make_of_card(const std::string& folder, const CardGrant& grant,
                                      bool turns) const {
  share::PageValues values;
  if (!share::read_uuid(grant.uuid.str().c_str(), values.uuid)) {
    return error("the UUID of card " + grant.uuid.str() + " is not one of NVML");
  }
  values.limit_bytes = limit_of(grant);
  values.context_bytes = static_cast<std::uint64_t>(context_.value() * kMiBytes);
  // The umask of this process has no say.
  if (::mkdir(folder.c_str(), 0755) == 0) ::chmod(folder.c_str(), 0755);
  share::Failure failure = share::make_pages(folder.c_str(), values);
  if (failure == nullptr && turns) failure = share::make_turn_pages(folder.c_str(), values.uuid);
  if (failure == nullptr) return {};
  return error(fmt::format("the page of the share in {} {}", folder, failure));
}

void SharePages::remove(const AllocationId& id) const {
  const std::string folder = folder_of(id);
  unmount(folder);
  std::error_code failed;
  std::filesystem::remove(folder, failed);
  if (!failed) return;
  log_warn("the pages of an ended container are not removed",
           {{"folder", folder}, {"problem", failed.message()}});
}

std::map<CardUuid, MiB> SharePages::reserved(const Record& record) const {
  std::map<CardUuid, MiB> all;
  std::error_code unreadable;
  if (!std::filesystem::exists(folder_of(record.id), unreadable)) return all;
  for (const CardGrant& grant : record.cards) {
    Uuid uuid;
    share::Look look;
    const std::string path = folder_of(record.id, grant.uuid);
    if (!share::read_uuid(grant.uuid.str().c_str(), uuid)) continue;
    if (share::look_at(path.c_str(), uuid, &look) != nullptr) look = {};
    const MiB reserved(static_cast<std::int64_t>(look.used_bytes) / kMiBytes);
    all[grant.uuid] = std::min(reserved, grant.share.memory);
  }
  return all;
}

// A process that was killed, or a version before, may have left them.
void SharePages::keep_only(const std::vector<Record>& records) const {
  std::set<std::string> kept;
  for (const Record& record : records) kept.insert(record.id.str());
  for (const std::string& name : names_in(folder_)) {
    const AllocationId id(name);
    if (valid(id) && !kept.contains(name)) remove(id);
  }
}

void SharePages::set_overhead(const AllocationId& id, const CardUuid& card, MiB overhead) const {
  const std::string path = folder_of(id, card);
  const auto bytes = static_cast<std::uint64_t>(overhead.value() * kMiBytes);
  if (const auto failure = share::set_overhead(path.c_str(), bytes)) {
    log_warn("the overhead of a share is not counted", {{"folder", path}, {"problem", failure}});
  }
}

}  // namespace mgpu::plugin
