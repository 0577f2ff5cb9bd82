// The file <run_dir>/mps-release, by which mgpu-device-plugin, which reads the label of the Node
// object, requests that mgpu-mps ends its daemons and closes the driver. It is empty, and only its
// existence counts. It is not in <run_dir>/mps, whose folders are the cards.
#pragma once

#include <string>

#include "common/base/result.h"

namespace mgpu::plugin {

std::string release_marker(const std::string& run_dir);
bool is_release_marked(const std::string& run_dir);
// Nothing is done if the file is as requested. Errors: it cannot be written or removed.
Result<void> mark_release(const std::string& run_dir, bool requested);

}  // namespace mgpu::plugin
