// The address of a Prometheus, as flags define it. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/kube/config/config.h"

namespace mgpu::promql {

// The flags of a program that queries Prometheus.
struct Access {
  std::string url{};         // --prometheus-url; the API is at <url>/api/v1
  std::string ca_file{};     // --prometheus-ca; empty: the system's roots
  std::string token_file{};  // --prometheus-token-file; empty: without credentials
  std::string tenant{};      // --prometheus-tenant; empty: none
};

// The address for a kube::CurlTransport. Errors: a URL that is not valid, or has credentials or a
// query in it; a token for a server that is reached over the network without TLS.
// REQUIRES: the URL is not empty.
Result<kube::Config> config_of(const Access& access);

}  // namespace mgpu::promql
