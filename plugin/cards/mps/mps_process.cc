#include "plugin/cards/mps/mps_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// glibc 2.36 declares its functions as if they were C++.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps/mps_v3.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kLogBytesRead = 4096;
// A larger argument of a system call is no descriptor.
constexpr std::uint64_t kDescriptorMax = 1 << 20;
// Two numbers.
constexpr std::size_t kDaemonFileBytesMax = 256;
// Fields of /proc/<pid>/stat between the state, which follows the name, and the start time
// (proc(5)).
constexpr int kFieldsBeforeStartTime = 18;

Error failure(const char* what, const std::string& path, int number) {
  return error(fmt::format("{} {}: {}", what, in_quotes(path), std::strerror(number)));
}

// The daemon finds the program of its server in PATH only.
std::string path_with_folder_of(const std::string& control) {
  const char* const set = std::getenv("PATH");
  const std::string path = set != nullptr ? set : "";
  const std::size_t slash = control.rfind('/');
  if (slash == control.npos) return "PATH=" + path;
  return "PATH=" + control.substr(0, slash) + (path.empty() ? "" : ":" + path);
}

std::string log_file(const MpsFolders& folders) {
  return folders.log + "/daemon.log";
}

// The last bytes that the daemon printed.
std::string log_tail(const MpsFolders& folders, std::streamoff bytes = kLogBytesRead) {
  std::ifstream file(log_file(folders), std::ios::ate);
  const auto size = static_cast<std::streamoff>(file.tellg());
  file.seekg(std::max<std::streamoff>(size - bytes, 0));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(text.data(), bytes);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// The start time of a process; none if it does not exist or has ended.
std::optional<std::uint64_t> start_time(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), kProcFileBytesMax);
  // The name may contain blanks and brackets.
  const std::size_t name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return std::nullopt;
  for (int i = 0; i < kFieldsBeforeStartTime; ++i) fields >> field;
  std::uint64_t started = 0;
  return fields >> started ? std::optional(started) : std::nullopt;
}

}  // namespace

std::vector<std::string> mps_environment(const MpsFolders& folders) {
  return {"CUDA_MPS_PIPE_DIRECTORY=" + folders.pipe, "CUDA_MPS_LOG_DIRECTORY=" + folders.log};
}

MpsFolders mps_folders(const std::string& run_dir, const CardUuid& card) {
  const std::string base = run_dir + "/mps/" + card.str();
  return {base + "/pipe", base + "/client", base + "/shares", base + "/log", base + "/daemon"};
}

// Programs of any user can use a folder that is mounted for them, but cannot list the
// folders above it.
Result<void> make_mps_folders(const MpsFolders& folders) {
  if (folders.pipe.size() > kMpsPipePathMax) {
    return error(fmt::format("the MPS pipe directory {} must have at most {} bytes",
                             in_quotes(folders.pipe), kMpsPipePathMax));
  }
  for (const std::string& folder : {folders.pipe, folders.client, folders.log}) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) return failure("cannot create", folder, failed.value());
    ::chmod(folder.c_str(), 0755);
  }
  const fs::path card = fs::path(folders.pipe).parent_path();
  ::chmod(card.parent_path().c_str(), 0711);
  ::chmod(card.c_str(), 0711);
  return {};
}

Result<void> link_control(const MpsFolders& folders) {
  // An earlier version may have started the daemon, and made no folder.
  std::error_code unreadable;
  if (!fs::exists(folders.client, unreadable)) {
    if (auto made = make_mps_folders(folders); !made) return made;
  }
  return link_socket(folders.pipe + "/control", folders.client);
}

bool is_linked(const std::string& socket, const std::string& folder) {
  struct stat wanted {};
  struct stat found {};
  return ::stat(socket.c_str(), &wanted) == 0 &&
         ::stat((folder + "/control").c_str(), &found) == 0 && found.st_dev == wanted.st_dev &&
         found.st_ino == wanted.st_ino;
}

Result<void> link_socket(const std::string& socket, const std::string& folder) {
  if (is_linked(socket, folder)) return {};
  if (::access(socket.c_str(), F_OK) != 0) return failure("cannot find", socket, errno);
  const std::string link = folder + "/control";
  const std::string fresh = fmt::format("{}.{}", folder, ::gettid());
  ::unlink(fresh.c_str());
  const bool linked =
      ::link(socket.c_str(), fresh.c_str()) == 0 && ::rename(fresh.c_str(), link.c_str()) == 0;
  return linked ? Result<void>() : failure("cannot make", link, errno);
}

Result<DaemonProcess> start_mps_daemon(const std::string& control,
                                       const std::vector<std::string>& arguments, bool v3,
                                       const MpsFolders& folders, const CardUuid& card) {
  if (auto made = make_mps_folders(folders); !made) return made.error();
  const std::string log = log_file(folders);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  const UniqueFd out(::open(log.c_str(), kFlags, 0644));
  if (!out.is_open()) return failure("cannot write", log, errno);
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto variables = mps_environment(folders);
  // Its server gets the card by --allowed-devices.
  if (!v3) variables.push_back("CUDA_VISIBLE_DEVICES=" + card.str());
  variables.push_back(path_with_folder_of(control));
  const auto pid = spawn({.path = control,
                          .arguments = arguments,
                          .variables = variables,
                          .in = in.number(),
                          .out = out.number(),
                          .removed_prefix = kMpsVariables});
  if (!pid) return pid.error();
  const DaemonProcess daemon{*pid, start_time(*pid).value_or(0), v3};
  // Earlier versions read two numbers.
  const auto written = write_file(
      folders.daemon_file, fmt::format("{} {}{}\n", daemon.pid, daemon.started, v3 ? " v3" : ""),
      Durability::kProcess);
  if (written) return daemon;
  kill_mps_daemon(daemon);
  return written.error();
}

std::optional<DaemonProcess> known_mps_daemon(const MpsFolders& folders) {
  const auto text = read_file(folders.daemon_file, kDaemonFileBytesMax);
  if (!text) return std::nullopt;
  std::istringstream file(*text);
  DaemonProcess daemon;
  if (!(file >> daemon.pid >> daemon.started) || daemon.pid <= 1) return std::nullopt;
  std::string protocol;
  daemon.v3 = file >> protocol && protocol == "v3";
  return is_alive(daemon) ? std::optional(daemon) : std::nullopt;
}

bool is_alive(const DaemonProcess& daemon) {
  return !reap(daemon.pid) && start_time(daemon.pid) == daemon.started;
}

void kill_mps_daemon(const DaemonProcess& daemon) {
  if (daemon.pid > 1 && is_alive(daemon)) kill_session(daemon.pid);
}

std::optional<std::int64_t> awaited_process(const DaemonProcess& daemon) {
  // The number of the system call that the daemon is in, and its first argument.
  const auto text = read_file(fmt::format("/proc/{}/syscall", daemon.pid), kProcFileBytesMax);
  if (!text) return std::nullopt;
  std::istringstream words(*text);
  int call = 0;
  std::uint64_t descriptor = 0;
  if (!(words >> call >> std::hex >> descriptor) || descriptor > kDescriptorMax)
    return std::nullopt;
  const UniqueFd process(::pidfd_open(daemon.pid, 0));
  if (!process.is_open() || !is_alive(daemon)) return std::nullopt;
  const UniqueFd copy(::pidfd_getfd(process.number(), static_cast<int>(descriptor), 0));
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_socket =
      copy.is_open() && ::getsockopt(copy.number(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return is_socket && peer.pid > 0 ? std::optional<std::int64_t>(peer.pid) : std::nullopt;
}

std::string last_log_line(const MpsFolders& folders) {
  std::string text = log_tail(folders);
  text.erase(text.find_last_not_of('\n') + 1);
  return text.empty() ? "" : ": " + in_quotes(text.substr(text.rfind('\n') + 1));
}

std::string server_failure(const MpsFolders& folders) {
  const std::string text = log_tail(folders);
  for (const char* const reason : {"Failed to start", "exited with status"}) {
    const std::size_t at = text.rfind(reason);
    if (at != text.npos) return ": " + in_quotes(text.substr(at, text.find('\n', at) - at));
  }
  return {};
}

void trim_log(const MpsFolders& folders) {
  std::error_code unreadable;
  const auto size = fs::file_size(log_file(folders), unreadable);
  if (unreadable || size <= kMpsLogBytesMax) return;
  const std::string end = log_tail(folders, kMpsLogBytesKept);
  // The daemon appends. Lines that it writes now may be lost.
  if (::truncate(log_file(folders).c_str(), 0) != 0) return;
  std::ofstream(log_file(folders), std::ios::app) << end;
}

Result<std::string> mps_command(const std::string& control, const MpsFolders& folders,
                                const std::string& command, std::chrono::milliseconds timeout) {
  const auto daemon = known_mps_daemon(folders);
  if (daemon && daemon->v3) return mps_v2_response({control, folders, timeout}, command);
  auto response = run_with_input(
      {.path = control, .variables = mps_environment(folders), .removed_prefix = kMpsVariables},
      command + "\n", kMpsResponseBytesMax, timeout);
  if (response) return response;
  return error(fmt::format("\"{}\" failed: {}", command.substr(0, command.find('\n')),
                           response.error().message));
}

}  // namespace mgpu::plugin
