// The settings of NVIDIA's container toolkit that decide which containers get cards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::plugin {

inline constexpr std::string_view kAcceptVariable =
    "accept-nvidia-visible-devices-envvar-when-unprivileged";
inline constexpr std::string_view kAcceptVolumes = "accept-nvidia-visible-devices-as-volume-mounts";

// The defaults are those of the toolkit (nvidia-container-toolkit internal/config/config.go).
struct ToolkitSettings {
  // kAcceptVariable: the variable NVIDIA_VISIBLE_DEVICES of a container without privileges counts.
  bool by_environment = true;
  // kAcceptVolumes: volumes below /var/run/nvidia-container-devices count.
  bool by_mounts = false;
  bool operator==(const ToolkitSettings&) const = default;
};

// Reads the text of a config.toml as far as the settings need it: the lines before the first table.
// toml++ 3.3 aborts on some texts. Errors: a line before the first table is not `key = value`, has
// the beginning of a longer value, or a setting is not a boolean.
Result<ToolkitSettings> parse_toolkit_config(std::string_view text);

struct FoundToolkit {
  // Whether any of the files has it. Without files, and for a file that cannot be read, the
  // defaults.
  ToolkitSettings settings;
  std::vector<std::string> problems;  // one sentence for each file that cannot be read
};

// Reads the files of this node, whose files are below `node_root`.
FoundToolkit find_toolkit(const std::string& node_root);

}  // namespace mgpu::plugin
