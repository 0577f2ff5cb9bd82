// The same container by runc, the runtime that containerd uses: with a cgroup that lets it open its
// devices and no others, and with the capabilities of an ordinary container.
#pragma once

#include <string>

#include "bench/gpu/container.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

// The command that starts a container. Its root is made in the scratch folder. Error: the root
// cannot be made.
Result<Command> runc_command(const Trial& trial, const Container& container);
// The output of runc --version, such as "runc version 1.1.5 ...". Error: runc does not run on this
// machine.
Result<std::string> runc_version(const Trial& trial);
// Removes the leftovers of a killed container.
void remove_runc_container(const Trial& trial);
// Removes the cgroups of the container of an ended check. It runs in the process that has started
// the check.
void remove_runc_cgroups();

}  // namespace mgpu::gpu_trial
