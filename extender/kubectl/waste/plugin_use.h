// The accounts of device plugins, GET /use. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "extender/kubectl/waste/shares.h"

namespace mgpu::kubectl {

// Adds the account of one plugin. Items with more time than the account is long are left out, with
// a problem: a node may have any program in place of the plugin. Errors: it is not such an account.
Result<void> add_account(const std::string& body, UseFacts& facts);

}  // namespace mgpu::kubectl
