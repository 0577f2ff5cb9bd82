#include "plugin/cards/mps_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/base/files.h"
#include "common/base/text.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps_spawn.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLastWordsRead = 4096;
// Two numbers.
constexpr std::size_t kDaemonFileBytesMax = 256;
// Of /proc/<pid>/stat, counted from the state, which follows the name (proc(5)).
constexpr int kStartTimeAfterState = 19;

Error failure(const std::string& what, const std::string& path, int number) {
  return error(fmt::format("{} {}: {}", what, in_quotes(path), std::strerror(number)));
}

std::vector<std::string> environment(const MpsFolders& folders) {
  return {"CUDA_MPS_PIPE_DIRECTORY=" + folders.pipe, "CUDA_MPS_LOG_DIRECTORY=" + folders.log};
}

// When the process was started; none where it is not there or has ended.
std::optional<std::uint64_t> start_time(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), kProcFileBytesMax);
  // The name may have blanks and brackets of its own.
  const std::size_t name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return std::nullopt;
  std::uint64_t started = 0;
  for (int i = 0; i < kStartTimeAfterState; ++i) fields >> field;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), started);
  return code == std::errc() && fields ? std::optional(started) : std::nullopt;
}

Result<void> write_daemon_file(const std::string& path, const DaemonProcess& daemon) {
  const std::string written = path + ".new";
  std::ofstream file(written, std::ios::trunc);
  file << daemon.pid << " " << daemon.started << "\n";
  file.close();
  if (!file || std::rename(written.c_str(), path.c_str()) != 0) {
    return failure("cannot write", path, errno);
  }
  return {};
}

}  // namespace

MpsFolders mps_folders(const std::string& run_dir, const CardUuid& card) {
  const std::string base = run_dir + "/mps/" + card.str();
  return {base + "/pipe", base + "/log", base + "/daemon"};
}

// Programs of any user reach the pipe directory when it is mounted for them, and not by looking
// around.
Result<void> make_mps_folders(const MpsFolders& folders) {
  if (folders.pipe.size() > kMpsPipePathMax) {
    return error(fmt::format("the MPS pipe directory {} must have at most {} bytes",
                             in_quotes(folders.pipe), kMpsPipePathMax));
  }
  const fs::path card = fs::path(folders.pipe).parent_path();
  std::error_code failed;
  fs::create_directories(card, failed);
  if (failed) return failure("cannot make", card.string(), failed.value());
  ::chmod(card.parent_path().c_str(), 0711);
  ::chmod(card.c_str(), 0711);
  for (const std::string& folder : {folders.pipe, folders.log}) {
    fs::create_directories(folder, failed);
    if (failed) return failure("cannot make", folder, failed.value());
    ::chmod(folder.c_str(), 0755);
  }
  return {};
}

Result<DaemonProcess> start_mps_daemon(const std::string& control,
                                       const std::vector<std::string>& arguments,
                                       const MpsFolders& folders, const CardUuid& card) {
  if (auto made = make_mps_folders(folders); !made) return made.error();
  const std::string printed = folders.log + "/daemon.log";
  const UniqueFd out(
      ::open(printed.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!out.is_open()) return failure("cannot write", printed, errno);
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto variables = environment(folders);
  variables.push_back("CUDA_VISIBLE_DEVICES=" + card.str());
  const auto pid = spawn({control, arguments, variables, in.number(), out.number()});
  if (!pid) return pid.error();
  const DaemonProcess daemon{*pid, start_time(*pid).value_or(0)};
  if (auto written = write_daemon_file(folders.daemon_file, daemon); !written) {
    kill_mps_daemon(daemon);
    return written.error();
  }
  return daemon;
}

std::optional<DaemonProcess> known_mps_daemon(const MpsFolders& folders) {
  const auto text = read_file(folders.daemon_file, kDaemonFileBytesMax);
  if (!text) return std::nullopt;
  std::istringstream file(*text);
  DaemonProcess daemon;
  if (!(file >> daemon.pid >> daemon.started) || daemon.pid <= 1) return std::nullopt;
  return is_alive(daemon) ? std::optional(daemon) : std::nullopt;
}

bool is_alive(const DaemonProcess& daemon) {
  return !reap(daemon.pid) && start_time(daemon.pid) == daemon.started;
}

void kill_mps_daemon(const DaemonProcess& daemon) {
  if (daemon.pid <= 1 || !is_alive(daemon)) return;
  kill_session(daemon.pid);
}

std::string last_log_line(const MpsFolders& folders) {
  std::ifstream file(folders.log + "/daemon.log");
  std::string text(kLastWordsRead, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t line = text.rfind('\n');
  return text.empty() ? ""
                      : ": " + in_quotes(text.substr(line == std::string::npos ? 0 : line + 1));
}

Result<std::string> mps_command(const std::string& control, const MpsFolders& folders,
                                const std::string& command, std::chrono::milliseconds timeout) {
  auto answer = run_with_input({control, {}, environment(folders), -1, -1}, command + "\n",
                               kMpsAnswerBytesMax, timeout);
  if (answer) return answer;
  return error(fmt::format("\"{}\" failed: {}", command, answer.error().message));
}

}  // namespace mgpu::plugin
