// The processes of NVIDIA's MPS: a control daemon, and the short-lived ones that pass it commands.
// Any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

// What belongs to the daemon of one card, below <run_dir>/mps/<uuid>.
struct MpsFolders {
  std::string pipe;
  std::string log;
  std::string daemon_file;  // names the daemon's process
};
MpsFolders mps_folders(const std::string& run_dir, const CardUuid& card);
// Errors: cannot be made, or too long for a socket in it.
Result<void> make_mps_folders(const MpsFolders& folders);

// A process, and not another one that was given its number later.
struct DaemonProcess {
  pid_t pid = 0;
  std::uint64_t started = 0;  // in clock ticks since the node's start
  bool operator==(const DaemonProcess&) const = default;
};

// Starts the daemon in a session of its own, so that it outlives this process, and writes down its
// process. Errors: the program is not there, the daemon's files cannot be written.
Result<DaemonProcess> start_mps_daemon(const std::string& control,
                                       const std::vector<std::string>& arguments,
                                       const MpsFolders& folders, const CardUuid& card);
// The process that start_mps_daemon() wrote down, if it still lives.
std::optional<DaemonProcess> known_mps_daemon(const MpsFolders& folders);
// The end of a child is noted by the first call after it.
bool is_alive(const DaemonProcess& daemon);
// Ends it, its servers, and with them all clients.
void kill_mps_daemon(const DaemonProcess& daemon);
// ": " and the last line the daemon printed, or nothing; to end a sentence.
std::string last_log_line(const MpsFolders& folders);

// What the daemon answers to `command`. Errors: no answer within `timeout`, no daemon, an answer
// over kMpsAnswerBytesMax.
Result<std::string> mps_command(const std::string& control, const MpsFolders& folders,
                                const std::string& command, std::chrono::milliseconds timeout);

}  // namespace mgpu::plugin
