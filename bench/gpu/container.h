// Containers of runc, the runtime that containerd uses. A container has exactly the files and
// devices of its edits, the image of build.sh (a C library and the test program), and what every
// runtime adds; a cgroup that lets it open its devices and no others; and the capabilities of an
// ordinary container. One exists at a time.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/program.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"

namespace mgpu::gpu_trial {

struct Container {
  plugin::Edits edits;
  int user = 0;  // user ID and group ID
  std::vector<plugin::Mount> more_mounts{};
  std::vector<std::string> command{};  // the program in the container and its arguments
};

// The test program of the image.
inline constexpr char kProgramInContainer[] = "/usr/bin/mgpu-cuda-program";
// A command that does nothing, in a container in which further programs run.
inline const std::vector<std::string> kIdleInContainer = {kProgramInContainer, "connect", "/tmp"};

// The reason why runc cannot run containers on this machine; empty if it can.
std::string problem_of_runc(const Trial& trial);
// The output of runc --version, such as "runc version 1.1.5 ...". Error: runc does not run on this
// machine.
Result<std::string> runc_version(const Trial& trial);

// Runs a container to its end. Errors: runc cannot start it, or its program fails.
Result<RunningProgram> run_container(const Trial& trial, const Container& container);
// Starts one and waits until its program has printed ready=1. It ends the one before it.
Result<RunningProgram> start_container(const Trial& trial, const Container& container);
// The command that starts a further program in the container that runs, with the user, the
// variables and the command of `container`.
Command in_container(const Trial& trial, const Container& container);
// The process ID on the node of the program of the last container. Zero: none has started.
pid_t pid_of_container(const Trial& trial);

// Removes the cgroups of the containers of an ended check. It runs in the process that has started
// the check.
void remove_runc_cgroups();

}  // namespace mgpu::gpu_trial
