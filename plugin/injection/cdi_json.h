// A CDI spec as JSON, version 0.5.0, the lowest that has hostPath (container-device-interface
// SPEC.md). Pure; any thread.
#pragma once

#include <string>

#include "plugin/allocation/edits.h"

namespace mgpu::plugin {

// A spec without devices is legal and resolves nothing.
std::string cdi_json(const CdiSpec& spec);

}  // namespace mgpu::plugin
