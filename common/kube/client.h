// Single typed calls to the API server. Callbacks run on the transport's executor, exactly once.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Why a call failed, by what the caller can do about it.
struct ApiError {
  enum class Kind {
    kNotFound,  // 404
    // 409: a precondition failed, the write was done before, or (for a binding) etcd did not
    // answer: the write may have happened, or may happen later.
    kConflict,
    kRefused,  // any other 4xx: another attempt will fail too
    // The object would become larger than etcd, or its client, accepts. kube-apiserver then answers
    // 500 with their message: nothing has changed, since the request is refused before it is
    // ordered.
    kTooLarge,
    kUnavailable,  // 429, or never sent: nothing has changed, another attempt may succeed
    // Sent, and no answer, a 5xx, or an answer without the API server's Status, which a proxy may
    // have written: it may have happened, or may happen later.
    kUnknown,
  };
  Kind kind = Kind::kUnavailable;
  std::string message;  // one sentence, with the server's own message
};

template <class T>
using ApiResult = boost::system::result<T, ApiError>;

[[noreturn]] void throw_exception_from_error(const ApiError& error,
                                             const boost::source_location& where);

class Client {
 public:
  // `transport` outlives the client.
  explicit Client(Transport& transport) : transport_(transport) {}

  void get_pod(const PodRef& pod, Duration timeout, std::function<void(ApiResult<Pod>)> done);
  void bind(const Binding& binding, Duration timeout, std::function<void(ApiResult<void>)> done);
  // The pod as the write has left it.
  void set_pod_condition(const PodRef& pod, const PodCondition& condition, Duration timeout,
                         std::function<void(ApiResult<Pod>)> done);
  void get_lease(const ObjectRef& lease, Duration timeout,
                 std::function<void(ApiResult<Lease>)> done);
  // POST of a Lease without a resourceVersion, PUT of another: the Lease as the write has left it.
  void write_lease(const Lease& lease, Duration timeout,
                   std::function<void(ApiResult<Lease>)> done);
  void get_service(const ObjectRef& service, Duration timeout,
                   std::function<void(ApiResult<Service>)> done);
  void get_pod_group(const ObjectRef& group, Duration timeout,
                     std::function<void(ApiResult<PodGroup>)> done);
  void get_endpoint_slice(const ObjectRef& slice, Duration timeout,
                          std::function<void(ApiResult<EndpointSlice>)> done);
  void get_secret(const ObjectRef& secret, Duration timeout,
                  std::function<void(ApiResult<Secret>)> done);
  // Sends a request whose answer has no body of interest. An error sentence begins with `subject`.
  void write(Request request, std::string subject, std::function<void(ApiResult<void>)> done);

  Executor& executor() { return transport_.executor(); }

 private:
  Transport& transport_;
};

// REQUIRES: !response.ok().
ApiError api_error(const Response& response);

}  // namespace mgpu::kube
