#include "plugin/kubelet/socket_file.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/files.h"
#include "common/base/text.h"

namespace mgpu::plugin {
namespace {

// Without the terminating zero byte.
constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev,
                      .inode = status.st_ino,
                      .seconds = status.st_mtim.tv_sec,
                      .nanoseconds = status.st_mtim.tv_nsec};
}

Result<void> check_socket_path(const std::string& path) {
  if (path.size() <= kSocketPathMax) return {};
  return error(fmt::format("socket path {} must have at most {} bytes, has {}", in_quotes(path),
                           kSocketPathMax, path.size()));
}

bool has_listener(const std::string& path) {
  if (!check_socket_path(path)) return false;
  const UniqueFd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  const int result =
      ::connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN: the queue of connections is full, so a process listens.
  return result == 0 || errno == EAGAIN;
}

void remove_file(const std::string& path, const FileIdentity& identity) {
  if (file_identity(path) == identity) ::unlink(path.c_str());
}

}  // namespace mgpu::plugin
