#include "plugin/cards/driver/release_marker.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "common/base/files.h"

namespace mgpu::plugin {

std::string release_marker(const std::string& run_dir) {
  return run_dir + "/mps-release";
}

bool is_release_marked(const std::string& run_dir) {
  std::error_code unreadable;
  return std::filesystem::exists(
      std::filesystem::symlink_status(release_marker(run_dir), unreadable));
}

Result<void> mark_release(const std::string& run_dir, bool requested) {
  if (is_release_marked(run_dir) == requested) return {};
  const std::string path = release_marker(run_dir);
  std::error_code failed;
  if (!requested) {
    std::filesystem::remove(path, failed);
    if (!failed) return {};
    return error(fmt::format("cannot remove {}: {}", path, failed.message()));
  }
  std::filesystem::create_directories(run_dir, failed);
  return write_file(path, "", Durability::kProcess);
}

}  // namespace mgpu::plugin
