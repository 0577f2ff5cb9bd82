// The command line of mgpu-extender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/http/limits.h"
#include "common/program/program.h"
#include "common/program/service_flags.h"
#include "extender/bind/limits.h"
#include "extender/extender.h"
#include "extender/prometheus/access.h"

namespace mgpu::extender {

struct Flags : ProgramFlags {
  ServiceFlags service{.metrics_bind_address = "127.0.0.1:9802"};
  std::string listen_address = "127.0.0.1";
  std::int64_t port = 9800;
  std::int64_t http_threads = 2;
  std::string url_prefix = "/mgpu";
  std::string resource_domain{kDefaultResourceDomain};
  std::int64_t min_memory_mib = 256;
  std::int64_t min_core = 1;
  std::string policy{kDefaultPolicy};
  std::int64_t bind_concurrency = kBindsInFlight;
  std::int64_t candidate_nodes = 1;
  std::string ties = "pod";
  bool expected_placements = true;
  bool preempt_by_card = true;
  std::string requeue_namespace = "kube-system";
  std::string lease_namespace = "kube-system";
  std::string lease_name = "mgpu-extender";
  bool leader_elect = false;
  bool lead_when_asked = false;
  std::int64_t lease_duration_seconds = 15;
  std::int64_t lease_renew_deadline_seconds = 10;
  std::int64_t lease_retry_seconds = 2;
  std::string endpoints_of;  // NAMESPACE/NAME of a Service
  std::string advertise_address;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_client_ca_file;
  std::string tls_client_names;  // comma-separated
  bool http2 = true;
  std::string tls_secret;  // namespace/name
  std::string tls_names;   // comma-separated
  bool metrics_tls_from_secret = false;
  promql::Access prometheus;
  std::int64_t max_body_bytes = http::kHttpBodyBytesMax;
  std::int64_t max_connections = http::kHttpConnectionsMax;
  std::int64_t max_connections_per_address = http::kHttpConnectionsPerAddressMax;
};

// `flags` holds the defaults, and outlives the use of `options`.
void add_flags(Options& options, Flags& flags);

// Errors: the value of a flag is invalid; the sentence names the flag.
Result<ExtenderOptions> options_of(const Flags& flags);

// Logs the flags that decide how the extender runs.
void log_flags(const Flags& flags);

// Lowers the limits of connections to what the limit of open files allows, and logs both.
void limit_connections(ExtenderOptions& options, std::size_t open_files);

}  // namespace mgpu::extender
