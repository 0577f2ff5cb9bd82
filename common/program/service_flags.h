// The flags of the listener for probes, metrics and inspection, which both programs have.
#pragma once

#include <string>
#include <vector>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/program/service_server.h"

namespace mgpu {

struct ServiceFlags {
  std::string metrics_bind_address;          // IP address and port
  std::string local_metrics_bind_address{};  // the same, on loopback
  std::string metrics_tls_cert_file{};
  std::string metrics_tls_key_file{};
  std::string allowed_hosts{};  // comma-separated
  bool insecure_listen = false;
};

// `flags` holds the default values, and outlives `options`. `insecure_help` describes what
// --insecure-listen permits.
void add_service_flags(Options& options, ServiceFlags& flags, const std::string& insecure_help);

// Errors: the value of a flag is invalid; the sentence names the flag.
Result<ServiceOptions> service_options_of(const ServiceFlags& flags);

// The names in a flag, separated by commas; none if it is empty. Errors: as above.
Result<std::vector<std::string>> names_of_flag(const std::string& flag, const std::string& value);

}  // namespace mgpu
