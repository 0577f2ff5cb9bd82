#include "common/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/text.h"

namespace mgpu {
namespace {

constexpr std::size_t kReadBytes = 16 * 1024;  // at most, in one read()

Error cannot_read(std::string_view what, const std::string& path, std::string_view why) {
  return error(fmt::format("cannot read {} {}: {}", what, in_quotes(path), why));
}

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

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this == &other) return *this;
  close();
  number_ = std::exchange(other.number_, -1);
  return *this;
}

// Errors are often reported after the descriptor has been closed.
void UniqueFd::close() {
  if (number_ < 0) return;
  const int before = errno;
  ::close(std::exchange(number_, -1));
  errno = before;
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max,
                              std::string_view what) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return cannot_read(what, path, std::strerror(errno));
  return read_open_file(file, path, bytes_max, what);
}

Result<std::string> read_open_file(const UniqueFd& file, const std::string& path,
                                   std::size_t bytes_max, std::string_view what) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return cannot_read(what, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return cannot_read(what, path, "it is not a regular file");
  std::string text;
  std::array<char, kReadBytes> part;
  while (text.size() <= bytes_max) {
    const ssize_t count = ::read(file.number(), part.data(), part.size());
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) return cannot_read(what, path, std::strerror(errno));
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  }
  return error(
      fmt::format("{} {} must have at most {} bytes, has more", what, in_quotes(path), bytes_max));
}

Result<void> write_file(const std::string& path, std::string_view text, Durability durability) {
  const std::string part = path + ".part";
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
  UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed("create", part);
  // Runtimes that do not run as root read CDI specs too.
  ::fchmod(file.number(), 0644);
  if (!write_all(file.number(), text)) return failed("write", part);
  const bool synced = durability == Durability::kMachine;
  if (synced && ::fsync(file.number()) != 0) return failed("sync", part);
  file.close();
  if (std::rename(part.c_str(), path.c_str()) != 0) return failed("write", path);
  if (!synced) return {};
  file = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.number()) != 0) return failed("sync", folder);
  return {};
}

}  // namespace mgpu
