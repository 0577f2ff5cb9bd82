// The flags --tls-secret and --tls-names.
#pragma once

#include <optional>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "extender/certificates/secret_certificates.h"

namespace mgpu::extender {

// The texts hold the defaults, and outlive the use of `options`.
void add_certificate_flags(Options& options, std::string& secret, std::string& names);

// None where both are empty. Errors: one without the other, an invalid value; the sentence names
// the flag.
Result<std::optional<CertificateSettings>> certificate_settings(const std::string& secret,
                                                                const std::string& names);

}  // namespace mgpu::extender
