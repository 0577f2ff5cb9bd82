#include "common/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "common/base/text.h"

namespace mgpu {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = 16 * 1024;  // at most, in one read()
// A file that is being written is younger.
constexpr std::chrono::minutes kUnfinishedTimeMax{5};

Error cannot_read(std::string_view what, const std::string& path, std::string_view why) {
  return error(fmt::format("cannot read {} {}: {}", what, in_quotes(path), why));
}

Result<std::string> read_to_end(int file, const std::string& path, std::size_t bytes_max,
                                std::string_view what) {
  std::string text;
  std::array<char, kReadBytes> part;
  while (text.size() <= bytes_max) {
    const ssize_t count = ::read(file, part.data(), part.size());
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) return cannot_read(what, path, std::strerror(errno));
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  }
  return error(
      fmt::format("{} {} must have at most {} bytes, has more", what, in_quotes(path), bytes_max));
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
  return read_to_end(file.number(), path, bytes_max, what);
}

Result<std::string> read_input(const std::string& path, std::size_t bytes_max) {
  if (path == "-") return read_to_end(STDIN_FILENO, "standard input", bytes_max, "file");
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) return cannot_read("file", path, std::strerror(errno));
  return read_to_end(file.number(), path, bytes_max, "file");
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    names.insert(at->path().filename());
  }
  return names;
}

void remove_unfinished(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder / name;
    if (!path.starts_with(prefix) || !path.ends_with(kUnfinished)) continue;
    std::error_code gone;
    const auto written = fs::last_write_time(path, gone);
    if (!gone && fs::file_time_type::clock::now() - written > kUnfinishedTimeMax)
      fs::remove(path, gone);
  }
}

}  // namespace mgpu
