#include "plugin/state/incumbent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mgpu::plugin {

// The file is locked before it gets its name, so that nobody takes this process for ended.
Result<void> Incumbent::become() {
  std::error_code ignored;  // mkostemps() fails then
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  remove_unfinished(path_);
  std::string name = fmt::format("{}.XXXXXX{}", path_, kUnfinished);
  UniqueFd file(::mkostemps(name.data(), static_cast<int>(kUnfinished.size()), O_CLOEXEC));
  if (!file.is_open() || ::flock(file.number(), LOCK_EX | LOCK_NB) != 0 ||
      std::rename(name.c_str(), path_.c_str()) != 0) {
    return error(fmt::format("cannot create {}: {}", path_, std::strerror(errno)));
  }
  const MutexLock lock(mutex_);
  file_ = std::move(file);
  return {};
}

bool Incumbent::replaced() const {
  const MutexLock lock(mutex_);
  struct stat own {};
  struct stat found {};
  return file_.is_open() && ::fstat(file_.number(), &own) == 0 &&
         ::stat(path_.c_str(), &found) == 0 &&
         (own.st_ino != found.st_ino || own.st_dev != found.st_dev);
}

bool Incumbent::successor_ended() const {
  if (!replaced()) return false;
  const UniqueFd found(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  // The kernel ends the lock with its process, however that ends.
  return found.is_open() && ::flock(found.number(), LOCK_SH | LOCK_NB) == 0;
}

}  // namespace mgpu::plugin
