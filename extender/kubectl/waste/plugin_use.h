// The accounts of device plugins, GET /use. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "extender/kubectl/waste/shares.h"

namespace mgpu::kubectl {

// Adds the account of one plugin. Errors: it is not such an account.
Result<void> add_account(const std::string& body, UseFacts& facts);

}  // namespace mgpu::kubectl
