// The flags --tls-secret, --tls-names and --metrics-tls-from-secret.
#pragma once

#include <optional>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "extender/certificates/secret_certificates.h"

namespace mgpu::extender {

// The arguments hold the defaults, and outlive the use of `options`.
void add_certificate_flags(Options& options, std::string& secret, std::string& names,
                           bool& metrics);

// None if both are empty. Errors: one without the other, an invalid value; the sentence names
// the flag.
Result<std::optional<CertificateOptions>> certificate_options(const std::string& secret,
                                                              const std::string& names);

}  // namespace mgpu::extender
