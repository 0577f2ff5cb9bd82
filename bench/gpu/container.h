// Runs a program in its own root with exactly the files and devices of a container with these
// edits: the image of build.sh (a C library and the test program), the edits, and what every
// runtime adds
// (/proc, /dev/null, /tmp). In contrast to runc (runc.h), it uses the network and the cgroup of
// this process.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/program.h"
#include "bench/gpu/trial.h"
#include "plugin/allocation/edits.h"

namespace mgpu::gpu_trial {

struct Container {
  plugin::Edits edits;
  int user = 0;  // user ID and group ID
  // Additional read-only mounts: host path and path in the container.
  std::vector<plugin::Mount> more_mounts;
  std::vector<std::string> command;  // the program in the container and its arguments
  // Whether it has its own PID and IPC namespaces, as a container has.
  bool own_namespaces = true;
};

// The command that starts the container: this program itself, as "mgpu-gpu-trial enter ...".
Command enter_command(const Trial& trial, const Container& container);

// Implements that command: makes the root, enters it in new mount, PID and IPC namespaces, changes
// to the user and starts the program. Returns the exit code of the program, or 125 after one
// sentence on standard error if the program cannot be started.
int enter(const std::vector<std::string>& arguments);

// The test program of the image.
inline constexpr char kProgramInContainer[] = "/usr/bin/mgpu-cuda-program";

// Makes such a root folder for another runtime: the image, and an empty file or folder for each
// mount of the edits. Error: it cannot be made.
Result<void> make_root_folder(const std::string& root, const std::string& image,
                              const std::vector<plugin::Mount>& mounts);

}  // namespace mgpu::gpu_trial
