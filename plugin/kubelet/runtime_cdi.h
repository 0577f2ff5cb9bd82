// Whether a container runtime resolves CDI names, told from what it says of itself. Pure.
#pragma once

#include <string>
#include <string_view>

#include "plugin/kubelet/runtime.h"

namespace mgpu::plugin {

// `config`: info["config"] of Status, empty where there is none. Fills in `cdi` and `why`.
Runtime with_cdi(std::string name, std::string version, std::string_view config,
                 const std::string& cdi_dir);

}  // namespace mgpu::plugin
