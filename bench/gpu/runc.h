// The same container by runc, the runtime that containerd uses: with a cgroup that lets it open its
// devices and no others, and with the capabilities of an ordinary container.
#pragma once

#include <string>

#include "bench/gpu/container.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

// The command that starts it; its root is made in the scratch folder. Errors: it cannot be made.
Result<Command> runc_command(const Trial& trial, const Container& container);
// "runc version 1.1.5 ...". Errors: it does not run on this machine.
Result<std::string> runc_version(const Trial& trial);
// Removes what a container that was killed leaves behind.
void forget_runc_container(const Trial& trial);
// Removes the cgroups of the container of a check that was ended, in the process that started the
// check.
void remove_runc_cgroups();

}  // namespace mgpu::gpu_trial
