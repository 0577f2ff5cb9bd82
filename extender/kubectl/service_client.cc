#include "extender/kubectl/service_client.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "common/kube/curl/curl_transport.h"

namespace mgpu::kubectl {
namespace {

constexpr int kNeedsToken = 401;

bool is_this_machine(std::string_view url) {
  for (const std::string_view host : {"http://127.0.0.1", "http://[::1]", "http://localhost"}) {
    if (!url.starts_with(host)) continue;
    const std::string_view rest = url.substr(host.size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return true;
  }
  return false;
}

// What a listener checks is a token. Certificates and passwords are for the API server.
kube::Config credentials_for(const kube::Config& listener, const kube::Config& config) {
  kube::Config credentials = config;
  credentials.server = listener.server;
  credentials.ca = listener.ca;
  credentials.insecure_skip_tls_verify = listener.insecure_skip_tls_verify;
  credentials.tls_server_name.clear();
  credentials.proxy_url.clear();
  credentials.client_certificate = {};
  credentials.client_key = {};
  credentials.username.clear();
  credentials.password.clear();
  return credentials;
}

}  // namespace

bool may_send_token(const ServiceAddress& address) {
  return address.takes_token &&
         (address.tunnel || address.url.starts_with("https://") || is_this_machine(address.url));
}

Result<std::unique_ptr<ServiceClient>> ServiceClient::create(const ServiceAddress& address,
                                                             const kube::Config& config,
                                                             Duration timeout) {
  kube::Config plain;
  plain.server = address.url;
  plain.ca.file = address.ca_file;
  plain.insecure_skip_tls_verify = address.tunnel;
  std::unique_ptr<ServiceClient> client(new ServiceClient(credentials_for(plain, config), timeout));
  client->may_send_token_ = may_send_token(address);
  auto transport = kube::CurlTransport::create(std::move(plain), client->executor_);
  if (!transport) return transport.error();
  client->plain_ = std::move(*transport);
  return client;
}

Result<std::unique_ptr<ServiceClient>> ServiceClient::to_pod(const Cluster& cluster,
                                                             const PodRef& pod, std::int64_t port,
                                                             bool takes_token) {
  auto forward = cluster.forward(pod, port);
  if (!forward) return forward.error();
  // The listener of a pod may have a certificate, and does not report it.
  for (const char* scheme : {"http", "https"}) {
    const std::string url = fmt::format("{}://127.0.0.1:{}", scheme, (*forward)->port());
    auto client = create({url, "", true, takes_token}, cluster.config(), cluster.timeout());
    if (!client) return client.error();
    if (!(*client)->get("/readyz", "GET /readyz", true).known()) continue;
    (*client)->forward_ = std::move(*forward);
    return client;
  }
  return error(fmt::format("pod {} does not answer on its port {}", to_string(pod), port));
}

// Null: the token may not be sent, or there is none.
kube::Transport* ServiceClient::with_token() {
  if (!may_send_token_ || with_token_) return with_token_.get();
  auto transport = kube::CurlTransport::create(credentials_, executor_);
  if (transport) with_token_ = std::move(*transport);
  return with_token_.get();
}

// The transports are destroyed after it.
ServiceClient::~ServiceClient() {
  executor_.stop();
}

kube::Response ServiceClient::call(const kube::Request& request) {
  kube::Response response = Api(*plain_, timeout_).call(request);
  kube::Transport* const again = response.status == kNeedsToken ? with_token() : nullptr;
  return again == nullptr ? response : Api(*again, timeout_).call(request);
}

Fact<std::string> ServiceClient::get(const std::string& path, const std::string& what,
                                     bool any_status) {
  kube::Request request;
  request.target = path;
  kube::Response response = call(request);
  if (any_status && response.status != 0) return response.body;
  return body_of(response, what);
}

}  // namespace mgpu::kubectl
