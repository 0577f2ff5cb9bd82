#include "extender/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/http/address.h"
#include "common/kube/limits.h"
#include "common/program/open_files.h"
#include "extender/certificate_flags.h"
#include "extender/prometheus/flags.h"

namespace mgpu::extender {

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::size_t kNamespaceMax = 63;
constexpr std::int64_t kCandidateNodesMax = 100'000;

Result<void> check_url_prefix(const std::string& prefix) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/-._~").find(c) != std::string_view::npos;
  };
  const bool rooted = prefix.size() > 1 && prefix.front() == '/' && prefix.back() != '/';
  if (rooted && std::ranges::all_of(prefix, is_allowed)) return {};
  return error(
      fmt::format("--url-prefix: {} is not a path such as \"/mgpu\": it must start with \"/\" and "
                  "not end with it",
                  in_quotes(prefix)));
}

bool is_label(const std::string& name) {
  return name.size() <= kNamespaceMax && is_dns_label(name);
}

Result<void> check_label(const char* flag, const std::string& name, const char* what) {
  if (is_label(name)) return {};
  return error(
      fmt::format("{}: {} is not {}: at most 63 characters of a-z, 0-9 and \"-\", neither starting "
                  "nor ending with \"-\"",
                  flag, in_quotes(name), what));
}

Result<void> check_requeue_namespace(const std::string& name) {
  if (name.empty()) return {};
  auto checked = check_label("--requeue-namespace", name, "a namespace");
  if (checked) return {};
  return error(checked.error().message + "; if empty, pods are not requeued");
}

Result<void> check_lease(const Flags& flags) {
  auto checked = check_label("--lease-namespace", flags.lease_namespace, "a namespace");
  if (!checked) return checked.error();
  return check_label("--lease-name", flags.lease_name, "the name of a lease");
}

Result<std::optional<ElectionOptions>> election_options(const Flags& flags) {
  if (flags.lead_when_asked && !flags.leader_elect) {
    return error("--lead-when-asked requires --leader-elect");
  }
  if (!flags.leader_elect) return std::optional<ElectionOptions>();
  if (flags.lease_renew_deadline_seconds >= flags.lease_duration_seconds) {
    return error(
        fmt::format("--lease-renew-deadline-seconds: {} is not less than "
                    "--lease-duration-seconds, which is {}",
                    flags.lease_renew_deadline_seconds, flags.lease_duration_seconds));
  }
  if (flags.lease_retry_seconds >= flags.lease_renew_deadline_seconds) {
    return error(
        fmt::format("--lease-retry-seconds: {} is not less than "
                    "--lease-renew-deadline-seconds, which is {}",
                    flags.lease_retry_seconds, flags.lease_renew_deadline_seconds));
  }
  return std::optional(
      ElectionOptions{.duration = std::chrono::seconds(flags.lease_duration_seconds),
                      .renew_deadline = std::chrono::seconds(flags.lease_renew_deadline_seconds),
                      .retry = std::chrono::seconds(flags.lease_retry_seconds),
                      .when_asked = flags.lead_when_asked});
}

Result<std::optional<EndpointOptions>> endpoint_options(const Flags& flags) {
  if (flags.endpoints_of.empty() != flags.advertise_address.empty()) {
    return error("--endpoints-of and --advertise-address must be set together");
  }
  if (flags.endpoints_of.empty()) return std::optional<EndpointOptions>();
  const std::size_t slash = flags.endpoints_of.find('/');
  const std::string name_space = flags.endpoints_of.substr(0, slash);
  const std::string name =
      slash == std::string::npos ? std::string() : flags.endpoints_of.substr(slash + 1);
  if (!is_label(name_space) || !is_label(name)) {
    return error(
        fmt::format("--endpoints-of: {} is not a Service, as in \"kube-system/mgpu-extender\"",
                    in_quotes(flags.endpoints_of)));
  }
  const std::string& address = flags.advertise_address;
  if (!http::is_ip_address(address) || http::is_loopback(address)) {
    return error(
        fmt::format("--advertise-address: {} is not an IP address that other machines reach",
                    in_quotes(address)));
  }
  return std::optional(EndpointOptions{.service = {name_space, name}, .address = address});
}

Result<void> check_tls(const Flags& flags) {
  const bool files = !flags.tls_cert_file.empty() || !flags.tls_key_file.empty() ||
                     !flags.tls_client_ca_file.empty() || !flags.tls_client_names.empty();
  if (!flags.tls_secret.empty() && files) {
    return error(
        "--tls-secret excludes --tls-cert-file, --tls-key-file, --tls-client-ca-file and "
        "--tls-client-names");
  }
  if (flags.tls_cert_file.empty() != flags.tls_key_file.empty()) {
    return error("--tls-cert-file and --tls-key-file must be set together");
  }
  if (!flags.tls_client_ca_file.empty() && flags.tls_cert_file.empty()) {
    return error("--tls-client-ca-file requires --tls-cert-file");
  }
  const bool metrics_files = !flags.service.metrics_tls_cert_file.empty();
  if (flags.metrics_tls_from_secret && (flags.tls_secret.empty() || metrics_files)) {
    return error(
        "--metrics-tls-from-secret requires --tls-secret, and excludes --metrics-tls-cert-file");
  }
  if (flags.tls_client_names.empty() || !flags.tls_client_ca_file.empty()) return {};
  return error("--tls-client-names requires --tls-client-ca-file");
}

// Whoever can call the verbs can bind every pod to every node.
Result<void> check_listen_address(const Flags& flags) {
  if (!http::is_ip_address(flags.listen_address)) {
    return error(
        fmt::format("--listen-address: {} is not an IP address", in_quotes(flags.listen_address)));
  }
  const bool named = !flags.tls_client_ca_file.empty() && !flags.tls_client_names.empty();
  const bool safe = named || !flags.tls_secret.empty() || http::is_loopback(flags.listen_address);
  if (safe || flags.service.insecure_listen) return {};
  return error(fmt::format(
      "--listen-address: {} is not a loopback address, so that it requires --tls-secret, or "
      "--tls-client-ca-file and --tls-client-names, or --insecure-listen",
      in_quotes(flags.listen_address)));
}

Error of_flag(const char* flag, const Error& problem) {
  return error(fmt::format("{}: {}", flag, problem.message));
}

Result<VerbOptions> verb_options(const Flags& flags) {
  auto contract = Contract::for_domain(flags.resource_domain);
  if (!contract) return of_flag("--resource-domain", contract.error());
  const auto policy = find_policy(flags.policy);
  if (!policy) return of_flag("--policy", policy.error());
  return VerbOptions{.contract = std::move(*contract),
                     .min_memory = MiB(flags.min_memory_mib),
                     .min_core = Percent(flags.min_core),
                     .policy = *policy,
                     .candidate_nodes = static_cast<std::size_t>(flags.candidate_nodes),
                     .ties_by_name = flags.ties == "name",
                     .expected_placements = flags.expected_placements};
}

Result<http::ServerOptions> http_options(const Flags& flags) {
  auto hosts = names_of_flag("--allowed-hosts", flags.service.allowed_hosts);
  if (!hosts) return hosts.error();
  auto client_names = names_of_flag("--tls-client-names", flags.tls_client_names);
  if (!client_names) return client_names.error();
  const bool secret = !flags.tls_secret.empty();
  if (secret) client_names = std::vector<std::string>{kSchedulerName};
  return http::ServerOptions{
      .address = flags.listen_address,
      .port = static_cast<std::uint16_t>(flags.port),
      .host_names = std::move(*hosts),
      .threads = static_cast<std::size_t>(flags.http_threads),
      .tls = {.certificate_file = flags.tls_cert_file,
              .key_file = flags.tls_key_file,
              .client_ca_file = flags.tls_client_ca_file,
              .client_names = std::move(*client_names),
              .from_texts = secret,
              .http2 = flags.http2},
      .body_bytes_max = static_cast<std::size_t>(flags.max_body_bytes),
      .connections_max = static_cast<std::size_t>(flags.max_connections),
      .connections_per_address_max = static_cast<std::size_t>(flags.max_connections_per_address)};
}

void add_listener_flags(Options& options, Flags& flags) {
  options.add_text("listen-address",
                   "IP address to listen on for kube-scheduler; an address that is not loopback "
                   "requires --tls-secret, or --tls-client-ca-file and --tls-client-names.",
                   flags.listen_address);
  options.add_number("port", "Port to listen on for kube-scheduler. 0 selects a free port.",
                     flags.port, 0, 65535);
  options.add_number("http-threads", "Number of threads that serve kube-scheduler.",
                     flags.http_threads, 1, 64);
  options.add_text(
      "url-prefix",
      "Path prefix of the verbs: urlPrefix in kube-scheduler's configuration of the extender.",
      flags.url_prefix);
  options.add_text(
      "tls-cert-file",
      "File with the PEM certificate chain of the server. If empty, plain HTTP is served.",
      flags.tls_cert_file);
  options.add_text("tls-key-file", "File with the PEM private key of the certificate.",
                   flags.tls_key_file);
  options.add_text("tls-client-ca-file",
                   "File with PEM CA certificates. If set, every client must present a certificate "
                   "signed by one of them.",
                   flags.tls_client_ca_file);
  options.add_text("tls-client-names",
                   "Comma-separated names. If set, the certificate of a client must have one of "
                   "them as its common name or as a DNS name.",
                   flags.tls_client_names);
  options.add_flag("http2",
                   "Offer HTTP/2 over TLS: kube-scheduler then uses one connection, so that a "
                   "burst of binds needs no handshakes.",
                   flags.http2);
  add_certificate_flags(options, flags.tls_secret, flags.tls_names, flags.metrics_tls_from_secret);
  options.add_number("max-body-bytes", "Maximum size of a request of kube-scheduler, in bytes.",
                     flags.max_body_bytes, 1024, kGiB);
  options.add_number(
      "max-connections",
      "Maximum number of open connections of kube-scheduler. The limit of open files may lower it.",
      flags.max_connections, 1, 65536);
  options.add_number("max-connections-per-address",
                     "Maximum number of open connections of one IP address that is not loopback. "
                     "Connections with an allowed client certificate do not count.",
                     flags.max_connections_per_address, 1, 65536);
  add_service_flags(options, flags.service,
                    "Permit that every client that reaches --listen-address binds pods, and that "
                    "bearer tokens are sent to --metrics-bind-address without TLS.");
}

void add_election_flags(Options& options, Flags& flags) {
  options.add_flag(
      "leader-elect",
      "Wait until no other replica holds the Lease, and renew it. Otherwise the Lease is taken at "
      "once from whoever holds it. The flag is required with more than one replica.",
      flags.leader_elect);
  options.add_flag("lead-when-asked",
                   "Take the Lease from another replica when kube-scheduler calls this one. This "
                   "is for replicas that each kube-scheduler reaches on its own loopback address.",
                   flags.lead_when_asked);
  options.add_number("lease-duration-seconds",
                     "A replica takes the Lease when its holder has not renewed it for this time.",
                     flags.lease_duration_seconds, 3, 60);
  options.add_number("lease-renew-deadline-seconds",
                     "A leader ends when it could not renew the Lease for this time.",
                     flags.lease_renew_deadline_seconds, 2, 60);
  options.add_number("lease-retry-seconds", "Time between two renewals of the Lease.",
                     flags.lease_retry_seconds, 1, 60);
  options.add_text("endpoints-of",
                   "Namespace/name of a Service without a selector, which kube-scheduler calls. "
                   "The leader writes its address into the EndpointSlice of this name.",
                   flags.endpoints_of);
  options.add_text("advertise-address",
                   "IP address of this replica for --endpoints-of, such as the pod's.",
                   flags.advertise_address);
}

}  // namespace

void add_flags(Options& options, Flags& flags) {
  add_api_server_flags(options, flags);
  options.add_number("bind-concurrency",
                     "Maximum number of binds that are in progress at the API server.",
                     flags.bind_concurrency, 1, kube::kApiRequestsInFlightMax);
  options.add_flag("preempt-by-card",
                   "Evict pods of lower priority for a pod where the sums of a node suffice and no "
                   "card does, in which case kube-scheduler evicts none.",
                   flags.preempt_by_card);
  options.add_text("requeue-namespace",
                   "Namespace of the CSIStorageCapacity that is written to make kube-scheduler try "
                   "rejected pods again. If empty, pods are not requeued.",
                   flags.requeue_namespace);
  options.add_text("lease-namespace",
                   "Namespace of the Lease that names the one process that may bind pods.",
                   flags.lease_namespace);
  options.add_text("lease-name", "Name of the Lease.", flags.lease_name);
  add_election_flags(options, flags);
  add_listener_flags(options, flags);
  options.add_text("resource-domain", "Domain prefix of the resources and annotations.",
                   flags.resource_domain);
  options.add_number("min-memory-mib", "Minimum memory of a share of one card, in MiB.",
                     flags.min_memory_mib, 1, 1'000'000);
  options.add_number("min-core",
                     "Minimum compute of a share of one card, in percent. Nodes with MPS require "
                     "more, which their device plugin publishes, because a card then has at most "
                     "48 clients (60 from CUDA 13.1 on).",
                     flags.min_core, 1, 100);
  options.add_text("policy",
                   "Policy that chooses nodes and cards for pods that do not choose a policy.",
                   flags.policy);
  options.add_number("candidate-nodes",
                     "Number of nodes in the answer of filter, the best of those that fit. 0 means "
                     "all. With 1, kube-scheduler computes no scores. With more, and a smaller "
                     "weight of the extender in its configuration, its own scores count too.",
                     flags.candidate_nodes, 0, kCandidateNodesMax);
  options.add_choice("ties",
                     "Choice among equally good nodes: pod = by a number of the pod and the node, "
                     "so that pods that are made in place of one that failed do not all get its "
                     "node, name = the first by name, so that the same pods get the same nodes.",
                     flags.ties, {"pod", "name"});
  options.add_flag("expected-placements",
                   "Avoid cards that are expected to go to pods between filter and bind.",
                   flags.expected_placements);
  promql::add_prometheus_flags(
      options, flags.prometheus,
      "Address of a Prometheus that scrapes the extenders and device plugins, such as "
      "http://prometheus.monitoring:9090. The web page shows the last 24 hours and the use of pods "
      "from it. If empty, the page shows the time since this process started.");
  add_log_flags(options, flags);
  options.check([&flags]() -> Result<void> {
    if (const auto read = options_of(flags); !read) return read.error();
    return {};
  });
}

Result<ExtenderOptions> options_of(const Flags& flags) {
  if (auto checked = check_url_prefix(flags.url_prefix); !checked) return checked.error();
  if (auto checked = check_tls(flags); !checked) return checked.error();
  if (auto checked = check_listen_address(flags); !checked) return checked.error();
  if (auto checked = check_requeue_namespace(flags.requeue_namespace); !checked) {
    return checked.error();
  }
  if (auto checked = check_lease(flags); !checked) return checked.error();
  const auto election = election_options(flags);
  if (!election) return election.error();
  auto endpoints = endpoint_options(flags);
  if (!endpoints) return endpoints.error();
  auto verbs = verb_options(flags);
  if (!verbs) return verbs.error();
  auto certificates = certificate_options(flags.tls_secret, flags.tls_names);
  if (!certificates) return certificates.error();
  auto prometheus = promql::prometheus_config(flags.prometheus);
  if (!prometheus) return prometheus.error();
  auto http = http_options(flags);
  if (!http) return http.error();
  auto service = service_options_of(flags.service);
  if (!service) return service.error();
  service->http.tls.from_texts = flags.metrics_tls_from_secret;
  return ExtenderOptions{.verbs = std::move(*verbs),
                         .http = std::move(*http),
                         .service = std::move(*service),
                         .url_prefix = flags.url_prefix,
                         .binds_in_flight = static_cast<std::size_t>(flags.bind_concurrency),
                         .preempts_by_card = flags.preempt_by_card,
                         .requeue_namespace = flags.requeue_namespace,
                         .lease = {flags.lease_namespace, flags.lease_name},
                         .election = *election,
                         .endpoints = std::move(*endpoints),
                         .certificates = std::move(*certificates),
                         .prometheus = std::move(*prometheus)};
}

void log_flags(const Flags& flags) {
  const auto on_or_off = [](bool on) { return std::string(on ? "true" : "false"); };
  log_info("starting", {{"version", version_text()},
                        {"resource_domain", flags.resource_domain},
                        {"policy", flags.policy},
                        {"min_memory_mib", std::to_string(flags.min_memory_mib)},
                        {"min_core", std::to_string(flags.min_core)},
                        {"url_prefix", flags.url_prefix},
                        {"bind_concurrency", std::to_string(flags.bind_concurrency)},
                        {"candidate_nodes", std::to_string(flags.candidate_nodes)},
                        {"ties", flags.ties},
                        {"expected_placements", on_or_off(flags.expected_placements)},
                        {"preempt_by_card", on_or_off(flags.preempt_by_card)},
                        {"requeue_namespace", flags.requeue_namespace},
                        {"lease", flags.lease_namespace + "/" + flags.lease_name},
                        {"leader_elect", on_or_off(flags.leader_elect)},
                        {"endpoints_of", flags.endpoints_of},
                        {"advertise_address", flags.advertise_address},
                        {"http_threads", std::to_string(flags.http_threads)},
                        {"max_body_bytes", std::to_string(flags.max_body_bytes)},
                        {"max_connections", std::to_string(flags.max_connections)},
                        {"tls", on_or_off(!flags.tls_cert_file.empty())},
                        {"tls_secret", flags.tls_secret},
                        {"tls_names", flags.tls_names},
                        {"client_certificates", on_or_off(!flags.tls_client_ca_file.empty())},
                        {"client_names", flags.tls_client_names},
                        {"prometheus_url", flags.prometheus.url},
                        {"metrics_tls", on_or_off(!flags.service.metrics_tls_cert_file.empty() ||
                                                  flags.metrics_tls_from_secret)},
                        {"insecure_listen", on_or_off(flags.service.insecure_listen)}});
  const bool named = !flags.tls_client_ca_file.empty() && !flags.tls_client_names.empty();
  const bool safe = named || !flags.tls_secret.empty() || http::is_loopback(flags.listen_address);
  if (safe) return;
  log_warn("every client that reaches this address can bind pods, because of --insecure-listen",
           {{"address", flags.listen_address}});
}

void limit_connections(ExtenderOptions& options, std::size_t open_files) {
  const std::size_t service = options.service.http.connections_max;
  std::size_t& verbs = options.http.connections_max;
  verbs = connections_within(open_files, verbs, service);
  log_info("connections are limited by open files",
           {{"open_files", std::to_string(open_files)},
            {"connections", std::to_string(verbs)},
            {"metrics_connections", std::to_string(service)}});
}

}  // namespace mgpu::extender
