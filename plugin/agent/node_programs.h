// Copies programs and libraries of this package to where the container runtime and containers find
// them on the node. Functions without state; one call for a file at a time.
#pragma once

#include <string>

#include "common/base/result.h"
#include "plugin/agent/isolation_options.h"

namespace mgpu::plugin {

// The folder of this program.
std::string own_folder();

// Copies a file, which a container may be starting with, unless it is there. Where that fails, the
// one of an earlier version stays if it can be used, and `kept` is logged. Errors: no usable
// file is there.
Result<void> install_file(const std::string& from, const std::string& to, const char* kept);

// Returns the path of mgpu-set-limits on the node, to which it is copied unless the options have
// one.
Result<std::string> install_hook(const IsolationOptions& options);

}  // namespace mgpu::plugin
