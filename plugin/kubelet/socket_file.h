// Unix sockets as files: which one lies at a path, and is anyone behind it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace mgpu::plugin {

// One file, as opposed to a later one of the same name: file systems give an inode's number again
// at once, so its time counts too.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
};

// None: nothing is there, or it cannot be looked at.
std::optional<FileIdentity> file_identity(const std::string& path);
// Errors: the path is longer than the address of a Unix socket may be.
Result<void> check_socket_path(const std::string& path);
// A process accepts connections there.
bool someone_listens(const std::string& path);
// Removes the file unless it has become another one.
void remove_file(const std::string& path, const FileIdentity& identity);

}  // namespace mgpu::plugin
