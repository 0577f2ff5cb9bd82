#include "common/base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/files.h"

namespace mgpu {

namespace {

namespace fs = std::filesystem;

Error failed(std::string_view what, const std::string& path) {
  return error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

UniqueFd open_file(const std::string& path, int flags) {
  return UniqueFd(open(path.c_str(), flags | O_CLOEXEC, 0600));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Result<void> write_part(const std::string& part, std::string_view text, Durability durability) {
  const UniqueFd file = open_file(part, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) return failed("create", part);
  // Runtimes that do not run as root read CDI specs too.
  fchmod(file.number(), 0644);
  if (!write_all(file.number(), text)) return failed("write", part);
  if (durability == Durability::kMachine && fsync(file.number()) != 0) return failed("sync", part);
  return {};
}

Result<void> sync_folder(const std::string& folder) {
  const UniqueFd opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (!opened.is_open() || fsync(opened.number()) != 0) return failed("sync", folder);
  return {};
}

Result<void> make_folder(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem || fs::is_directory(folder)) return {};
  return error(fmt::format("cannot create {}: {}", folder, problem.message()));
}

Result<void> replace(const std::string& part, const std::string& path) {
  if (std::rename(part.c_str(), path.c_str()) == 0) return {};
  return failed("write", path);
}

}  // namespace

Result<void> write_file(const std::string& path, std::string_view text, Durability durability) {
  const std::string folder = fs::path(path).parent_path();
  if (auto ok = make_folder(folder); !ok) return ok;
  const std::string part = path + std::string(kPartSuffix);
  auto written = write_part(part, text, durability);
  if (written) written = replace(part, path);
  if (!written) {
    unlink(part.c_str());
    return written;
  }
  return durability == Durability::kMachine ? sync_folder(folder) : written;
}

Result<void> remove_file(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return failed("remove", path);
}

bool file_exists(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

}  // namespace mgpu
