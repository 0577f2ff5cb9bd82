#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/files.h"

namespace mgpu {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<void> write_file(const std::string& path, std::string_view text, Durability durability) {
  std::string part = fmt::format("{}.XXXXXX{}", path, kUnfinished);
  const auto failed = [&part](std::string_view what, const std::string& file) {
    Error failure = error(fmt::format("cannot {} {}: {}", what, file, std::strerror(errno)));
    ::unlink(part.c_str());
    return failure;
  };
  const std::string folder = std::filesystem::path(path).parent_path();
  std::error_code problem;
  std::error_code ignored;
  std::filesystem::create_directories(folder, problem);
  if (problem && !std::filesystem::is_directory(folder, ignored)) {
    return error(fmt::format("cannot create {}: {}", folder, problem.message()));
  }
  UniqueFd file(::mkostemps(part.data(), static_cast<int>(kUnfinished.size()), O_CLOEXEC));
  if (!file.is_open()) return failed("create", part);
  // Runtimes that do not run as root read CDI specs too.
  ::fchmod(file.number(), 0644);
  if (!write_all(file.number(), text)) return failed("write", part);
  const bool synced = durability == Durability::kMachine;
  if (synced && ::fsync(file.number()) != 0) return failed("sync", part);
  file.close();
  if (std::rename(part.c_str(), path.c_str()) != 0) return failed("write", path);
  // A power loss may undo the rename unless the folder was synced, too.
  if (!synced) return {};
  file = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.number()) != 0) return failed("sync", folder);
  return {};
}

}  // namespace mgpu
