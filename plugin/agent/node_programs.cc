#include "plugin/agent/node_programs.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/base/files.h"
#include "common/base/log.h"

namespace mgpu::plugin {
namespace {

constexpr std::size_t kProgramBytesMax = std::size_t{64} << 20;

bool is_executable(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(path, unreadable) && ::access(path.c_str(), X_OK) == 0;
}

// Many nodes mount some folders so that no programs run from them.
Result<void> can_run(const std::string& path) {
  struct statvfs system {};
  const bool noexec = ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0;
  if (!noexec) return {};
  return error(path +
               " is on a file system that runs no programs (noexec); set --hook-path for "
               "limits of the driver and MPS, and another --state-dir for the library");
}

Result<void> copy_program(const std::string& from, const std::string& to) {
  const auto program = read_file(from, kProgramBytesMax, "program");
  if (!program) return program.error();
  const auto installed = read_file(to, kProgramBytesMax, "program");
  if (installed && *installed == *program && is_executable(to)) return can_run(to);
  if (auto written = write_file(to, *program, Durability::kProcess); !written) return written;
  if (::chmod(to.c_str(), 0755) != 0) return error("cannot make " + to + " executable");
  return can_run(to);
}

}  // namespace

std::string own_folder() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
}

Result<void> install_file(const std::string& from, const std::string& to, const char* kept) {
  auto copied = copy_program(from, to);
  if (copied || !is_executable(to) || !can_run(to)) return copied;
  log_warn(kept, {{"problem", copied.error().message}});
  return {};
}

Result<std::string> install_hook(const IsolationOptions& options) {
  if (!options.hook_path.empty()) return options.hook_path;
  const auto source = std::filesystem::path(own_folder()) / "mgpu-set-limits";
  std::string program = options.hook_folder + "/mgpu-set-limits";
  // A program of an earlier version has the same protocol.
  auto installed = install_file(source, program, "mgpu-set-limits was not replaced");
  if (!installed) return installed.error();
  return program;
}

}  // namespace mgpu::plugin
