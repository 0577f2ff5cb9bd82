// A program in a root of its own, with exactly the files and devices that a container with these
// edits gets: the image of build.sh (a C library and the test program), the edits, and what every
// runtime adds (/proc, /dev/null, /tmp). It shares the network and the cgroup of this process,
// which runc does not: runc.h is the other way.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/program.h"
#include "bench/gpu/trial.h"
#include "plugin/allocation/edits.h"

namespace mgpu::gpu_trial {

struct Container {
  plugin::Edits edits;
  int user = 0;  // and group
  // Mounted in addition, read only: host path, and path in the container.
  std::vector<plugin::Mount> more_mounts;
  std::vector<std::string> command;  // the program in the container and its arguments
  // Whether it has pid and IPC namespaces of its own, as a container has.
  bool own_namespaces = true;
};

// The command that starts it: this program itself, as "mgpu-gpu-trial enter ...".
Command enter_command(const Trial& trial, const Container& container);

// What that command does, in the process that runs it: it makes the root under `arguments`, enters
// it in new mount, pid and IPC namespaces, drops to the user and starts the program. It returns
// only where that fails, or the program has ended: its exit code, or 125 after one sentence on
// standard error.
int enter(const std::vector<std::string>& arguments);

// The test program of the image.
inline constexpr char kProgramInContainer[] = "/usr/bin/mgpu-cuda-program";

// A folder like it that another runtime can use as root: the image, and an empty file or folder
// wherever the edits mount something. Errors: it cannot be made.
Result<void> make_root_folder(const std::string& root, const std::string& image,
                              const std::vector<plugin::Mount>& mounts);

}  // namespace mgpu::gpu_trial
