#include "extender/election/leader_endpoints.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/kube/request.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {
namespace {

constexpr const char* kServiceLabel = "kubernetes.io/service-name";
constexpr const char* kManagedByLabel = "endpointslice.kubernetes.io/managed-by";
constexpr const char* kManager = "mgpu-extender";

bool same_endpoint(const kube::EndpointSlice& found, const kube::EndpointSlice& wanted) {
  const auto label = found.metadata.labels.find(kServiceLabel);
  return label != found.metadata.labels.end() &&
         label->second == wanted.metadata.labels.at(kServiceLabel) &&
         found.address_type == wanted.address_type && found.addresses == wanted.addresses &&
         found.port_name == wanted.port_name && found.port == wanted.port;
}

}  // namespace

LeaderEndpoints::LeaderEndpoints(kube::Client& client, HolderLease& lease, EndpointOptions options,
                                 std::function<void(const std::string&)> on_problem)
    : client_(client),
      lease_(lease),
      options_(std::move(options)),
      on_problem_(std::move(on_problem)) {}

void LeaderEndpoints::start(std::uint16_t port) {
  port_ = port;
  confirm();
}

// A process that was frozen must not write its address over that of a later leader.
void LeaderEndpoints::confirm() {
  lease_.confirm(callbacks_.wrap([this](const kube::ApiResult<void>& held) {
    if (lease_.lost()) return;
    if (!held) return fail(held.error().message);
    get_service();
  }));
}

void LeaderEndpoints::get_service() {
  client_.get_service(options_.service, kBindTimeout,
                      callbacks_.wrap([this](const kube::ApiResult<kube::Service>& service) {
                        if (!service) return fail(service.error().message);
                        get_slice(*service);
                      }));
}

void LeaderEndpoints::get_slice(const kube::Service& service) {
  if (service.has_selector) {
    return fail(fmt::format(
        "service {} has a selector, so that Kubernetes sends requests to all replicas; expected "
        "a Service without spec.selector",
        to_string(options_.service)));
  }
  client_.get_endpoint_slice(
      options_.service, kBindTimeout,
      callbacks_.wrap([this, service](const kube::ApiResult<kube::EndpointSlice>& found) {
        write_if_different(service, found);
      }));
}

void LeaderEndpoints::write_if_different(const kube::Service& service,
                                         const kube::ApiResult<kube::EndpointSlice>& found) {
  if (!found && found.error().kind != kube::ApiError::Kind::kNotFound) {
    return fail(found.error().message);
  }
  kube::EndpointSlice slice = wanted(service);
  if (found && same_endpoint(*found, slice)) return wait(kEndpointsInterval);
  // As a precondition, since another process may have written meanwhile.
  if (found) slice.metadata.resource_version = found->metadata.resource_version;
  kube::Request request = kube::write_endpoint_slice(service, slice);
  request.timeout = kBindTimeout;
  const std::string name = to_string(options_.service);
  client_.write(std::move(request), "write endpointslice " + name,
                callbacks_.wrap([this, name](const kube::ApiResult<void>& written) {
                  if (!written) return fail(written.error().message);
                  log_info("kube-scheduler's requests go to this process",
                           {{"service", name}, {"address", options_.address}});
                  backoff_.reset();
                  wait(kEndpointsInterval);
                }));
}

kube::EndpointSlice LeaderEndpoints::wanted(const kube::Service& service) const {
  kube::EndpointSlice slice;
  slice.metadata.name = options_.service.name;
  slice.metadata.name_space = options_.service.name_space;
  slice.metadata.labels = {{kServiceLabel, options_.service.name}, {kManagedByLabel, kManager}};
  slice.address_type = options_.address.find(':') == std::string::npos ? "IPv4" : "IPv6";
  slice.addresses = {options_.address};
  slice.port_name = service.port_names.empty() ? "" : service.port_names.front();
  slice.port = port_;
  return slice;
}

void LeaderEndpoints::fail(const std::string& sentence) {
  on_problem_(sentence);
  wait(backoff_.next());
}

void LeaderEndpoints::wait(Duration delay) {
  client_.executor().after(delay, callbacks_.wrap([this] { confirm(); }));
}

}  // namespace mgpu::extender
