// The answer of /inspect/explain as text for people. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {

// `explained` may also have "holds", the answer of /inspect/pod, and "schedulerMessage". `wide`:
// with all nodes and their cards. Errors: a member is
// missing or has a wrong type.
Result<std::string> explain_text(const Json& explained, bool wide, bool terminal);

// What a pod and its Events say, without the extender.
std::string said_text(const Json& said);

}  // namespace mgpu::kubectl
