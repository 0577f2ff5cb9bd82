// The processes of NVIDIA's MPS: a control daemon, and short-lived ones that send it commands. Any
// thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::plugin {

// The files of the daemon of one card, in <run_dir>/mps/<uuid>.
struct MpsFolders {
  std::string pipe;    // of the daemon, and of nobody else
  std::string client;  // what containers get of it
  std::string shares;  // what each container gets of one of v3 (mps_shares.h)
  std::string log;
  std::string daemon_file;  // identifies the daemon's process
};
MpsFolders mps_folders(const std::string& run_dir, const CardUuid& card);
// Errors: they cannot be created, or the path is too long for a socket.
Result<void> make_mps_folders(const MpsFolders& folders);

// The variables by which NVIDIA's programs find a daemon, and how the names of all begin that must
// not be passed on: the daemon's own settings are the only ones that count.
std::vector<std::string> mps_environment(const MpsFolders& folders);
inline constexpr const char* kMpsVariables = "CUDA_";

// Identifies a process even if its pid is used again later.
struct DaemonProcess {
  pid_t pid = 0;
  std::uint64_t started = 0;  // in clock ticks since the node's start
  bool v3 = false;            // its protocol, see mps_v3.h
  bool operator==(const DaemonProcess&) const = default;
};

// Makes the folder of containers, with a hard link of the socket `control` alone. The pipe
// directory also has a FIFO that every user may write, which stops the daemon, and
// `control_privileged`, by which root in a container can command it. A daemon that was started
// again has a new socket, which running containers see by the new link. Any thread of any process;
// changes nothing if it is so.
Result<void> link_control(const MpsFolders& folders);
// Makes `folder`/control a hard link of `socket`. Changes nothing if it is one. The folder exists.
Result<void> link_socket(const std::string& socket, const std::string& folder);
bool is_linked(const std::string& socket, const std::string& folder);

// Starts the daemon in a session of its own, so that it outlives this process, and writes its
// daemon file. `v3`: what its arguments make it. Errors: the program does not exist, or the
// daemon's files cannot be written.
Result<DaemonProcess> start_mps_daemon(const std::string& control,
                                       const std::vector<std::string>& arguments, bool v3,
                                       const MpsFolders& folders, const CardUuid& card);
// The process of the daemon file; none if it is not running.
std::optional<DaemonProcess> known_mps_daemon(const MpsFolders& folders);
// A child that has ended is reaped.
bool is_alive(const DaemonProcess& daemon);
// Kills the daemon and its servers, which ends all clients.
void kill_mps_daemon(const DaemonProcess& daemon);
// The process whose connection the daemon waits for, as one with root's rights can see it; none if
// it waits for no connection.
std::optional<std::int64_t> awaited_process(const DaemonProcess& daemon);
// ": " and the last line that the daemon printed, to end a sentence; empty if it printed nothing.
std::string last_log_line(const MpsFolders& folders);
// The same with the daemon's reason why its server has ended, without time and process.
std::string server_failure(const MpsFolders& folders);

// Keeps the end of the daemon's log if it has over kMpsLogBytesMax. The daemon writes a few lines
// for each command, and lives for months.
void trim_log(const MpsFolders& folders);

// Returns the daemon's response to `command`, which may have several lines. A daemon of v3 is asked
// by its own commands (mps_v2_response()). Errors: no response within `timeout`, no daemon, a
// response over kMpsResponseBytesMax.
Result<std::string> mps_command(const std::string& control, const MpsFolders& folders,
                                const std::string& command, std::chrono::milliseconds timeout);

}  // namespace mgpu::plugin
