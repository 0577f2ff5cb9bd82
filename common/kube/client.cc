#include "common/kube/client.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/kube/objects/object_json.h"

namespace mgpu::kube {
namespace {

// The answers that kube-apiserver itself treats alike (endpoints/handlers/rest.go,
// isTooLargeError): of etcd, and of its client where etcd accepts more than that.
bool is_too_large(const Status& status) {
  return status.code == 500 &&
         (status.message == "etcdserver: request is too large" ||
          status.message.find("trying to send message larger than max") != std::string::npos);
}

ApiError::Kind kind_of(const Response& response) {
  using Kind = ApiError::Kind;
  if (response.failure) return response.failure->sent ? Kind::kUnknown : Kind::kUnavailable;
  const Status status = status_of(response);
  // A proxy between here and the API server writes other bodies.
  if (status.kind != "Status" || status.code != response.status) return Kind::kUnknown;
  if (response.status == 404) return Kind::kNotFound;
  if (response.status == 409) return Kind::kConflict;
  if (response.status == 429) return Kind::kUnavailable;
  if (is_too_large(status)) return Kind::kTooLarge;
  return response.status >= 400 && response.status < 500 ? Kind::kRefused : Kind::kUnknown;
}

ApiError with_subject(std::string_view subject, ApiError error) {
  error.message = fmt::format("{}: {}", subject, error.message);
  return error;
}

// The object in the answer, read by `read`.
template <class T>
ApiResult<T> object_of(const Response& response, const std::string& subject,
                       Result<T> (*read)(std::string_view json)) {
  if (!response.ok()) return with_subject(subject, api_error(response));
  auto object = read(response.body);
  if (object) return *std::move(object);
  return ApiError{ApiError::Kind::kUnknown, subject + ": " + object.error().message};
}

template <class T>
void send_for(Transport& transport, Request request, Duration timeout, std::string subject,
              Result<T> (*read)(std::string_view json), std::function<void(ApiResult<T>)> done) {
  request.timeout = timeout;
  transport.send(std::move(request),
                 [subject = std::move(subject), read, done = std::move(done)](
                     const Response& response) { done(object_of(response, subject, read)); });
}

}  // namespace

void throw_exception_from_error(const ApiError& error, const boost::source_location&) {
  check_failed("result has a value", error.message.c_str(), std::source_location::current());
}

ApiError api_error(const Response& response) {
  return {kind_of(response), answer_text(response)};
}

void Client::get_pod(const PodRef& pod, Duration timeout,
                     std::function<void(ApiResult<Pod>)> done) {
  send_for(transport_, kube::get_pod(pod), timeout, "get pod " + to_string(pod), read_pod,
           std::move(done));
}

void Client::set_pod_condition(const PodRef& pod, const PodCondition& condition, Duration timeout,
                               std::function<void(ApiResult<Pod>)> done) {
  send_for(transport_, kube::set_pod_condition(pod, condition), timeout,
           "patch status of pod " + to_string(pod), read_pod, std::move(done));
}

void Client::get_lease(const ObjectRef& lease, Duration timeout,
                       std::function<void(ApiResult<Lease>)> done) {
  send_for(transport_, kube::get_lease(lease), timeout, "get lease " + to_string(lease), read_lease,
           std::move(done));
}

void Client::write_lease(const Lease& lease, Duration timeout,
                         std::function<void(ApiResult<Lease>)> done) {
  send_for(transport_, kube::write_lease(lease), timeout, "write lease " + to_string(lease.ref),
           read_lease, std::move(done));
}

void Client::get_service(const ObjectRef& service, Duration timeout,
                         std::function<void(ApiResult<Service>)> done) {
  send_for(transport_, kube::get_service(service), timeout, "get service " + to_string(service),
           read_service, std::move(done));
}

void Client::get_pod_group(const ObjectRef& group, Duration timeout,
                           std::function<void(ApiResult<PodGroup>)> done) {
  send_for(transport_, kube::get_pod_group(group), timeout, "get pod group " + to_string(group),
           read_pod_group, std::move(done));
}

void Client::get_endpoint_slice(const ObjectRef& slice, Duration timeout,
                                std::function<void(ApiResult<EndpointSlice>)> done) {
  send_for(transport_, kube::get_endpoint_slice(slice), timeout,
           "get endpointslice " + to_string(slice), read_endpoint_slice, std::move(done));
}

void Client::get_secret(const ObjectRef& secret, Duration timeout,
                        std::function<void(ApiResult<Secret>)> done) {
  send_for(transport_, kube::get_secret(secret), timeout, "get secret " + to_string(secret),
           read_secret, std::move(done));
}

void Client::bind(const Binding& binding, Duration timeout,
                  std::function<void(ApiResult<void>)> done) {
  Request request = kube::bind(binding);
  request.timeout = timeout;
  write(std::move(request), "bind pod " + to_string(binding.pod), std::move(done));
}

void Client::write(Request request, std::string subject,
                   std::function<void(ApiResult<void>)> done) {
  transport_.send(std::move(request),
                  [subject = std::move(subject), done = std::move(done)](const Response& response) {
                    if (response.ok()) return done({});
                    done(with_subject(subject, api_error(response)));
                  });
}

}  // namespace mgpu::kube
