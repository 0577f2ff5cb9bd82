#include "extender/kubectl/service_client.h"

#include <string_view>
#include <utility>

#include "common/kube/curl_transport.h"

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

}  // namespace

bool may_send_token(const ServiceAddress& address) {
  return address.tunnel || address.url.starts_with("https://") || is_this_machine(address.url);
}

Result<std::unique_ptr<ServiceClient>> ServiceClient::create(const ServiceAddress& address,
                                                             const kube::Config& config,
                                                             AsioExecutor& executor,
                                                             Duration timeout) {
  kube::Config plain;
  plain.server = address.url;
  plain.ca.file = address.ca_file;
  plain.insecure_skip_tls_verify = address.tunnel;
  std::unique_ptr<ServiceClient> client(new ServiceClient(executor, timeout));
  auto transport = kube::CurlTransport::create(plain, executor);
  if (!transport) return transport.error();
  client->plain_ = std::move(*transport);
  if (!may_send_token(address)) return client;
  kube::Config with_token = config;
  with_token.server = plain.server;
  with_token.ca = plain.ca;
  with_token.insecure_skip_tls_verify = plain.insecure_skip_tls_verify;
  with_token.tls_server_name.clear();
  with_token.proxy_url.clear();
  with_token.client_certificate = {};
  with_token.client_key = {};
  with_token.username.clear();
  with_token.password.clear();
  auto second = kube::CurlTransport::create(std::move(with_token), executor);
  if (second) client->with_token_ = std::move(*second);
  return client;
}

Fact<std::string> ServiceClient::get(const std::string& path, const std::string& what,
                                     bool any_status) {
  const auto call = [&](kube::Transport& transport) {
    kube::Request request;
    request.target = path;
    return Api(transport, timeout_).call(std::move(request));
  };
  kube::Response response = call(*plain_);
  if (response.status == kNeedsToken && with_token_) response = call(*with_token_);
  if (any_status && response.status != 0) return response.body;
  return body_of(response, what);
}

}  // namespace mgpu::kubectl
