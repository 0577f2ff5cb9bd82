#include "common/kube/bounded_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/limits.h"
#include "common/text.h"

namespace mgpu::kube {
namespace {

Error cannot_read(const std::string& path, int number) {
  return error(fmt::format("cannot read file {}: {}", in_quotes(path), std::strerror(number)));
}

Result<std::string> read_open_file(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return cannot_read(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return error(fmt::format("cannot read file {}: it is no ordinary file", in_quotes(path)));
  }
  std::string text;
  char part[4096];
  while (text.size() <= limits::kCredentialFileBytesMax) {
    const ssize_t count = ::read(file, part, sizeof part);
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) return cannot_read(path, errno);
    if (count > 0) text.append(part, static_cast<std::size_t>(count));
  }
  return error(fmt::format("file {} must have at most {} bytes, has more", in_quotes(path),
                           limits::kCredentialFileBytesMax));
}

}  // namespace

Result<std::string> read_bounded_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return cannot_read(path, errno);
  auto text = read_open_file(file, path);
  ::close(file);
  return text;
}

}  // namespace mgpu::kube
