// The files of Unix sockets. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace mgpu::plugin {

// Identifies a file among all files that have had its name. A file system may reuse an inode number
// at once, so the modification time is part of the identity.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Returns nothing if there is no file, or if it cannot be read.
std::optional<FileIdentity> file_identity(const std::string& path);
// Errors: the path is too long for the address of a Unix socket.
Result<void> check_socket_path(const std::string& path);
// Returns whether a process accepts connections on the socket.
bool has_listener(const std::string& path);
// Removes the file unless it has been replaced.
void remove_file(const std::string& path, const FileIdentity& identity);

}  // namespace mgpu::plugin
