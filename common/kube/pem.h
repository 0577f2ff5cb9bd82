// Checks of certificates and keys before they are used, so that a wrong file is named at the start
// and not at the first connection. Any thread.
#pragma once

#include "common/base/result.h"
#include "common/kube/config.h"

namespace mgpu::kube {

// Errors: a file that cannot be read; no certificate or key in the text; a key that needs a
// password, or does not belong to the certificate.
Result<void> check_credentials(const Config& config);

}  // namespace mgpu::kube
