// Single calls to the API server, typed. Callbacks run on the transport's executor, exactly once.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/kube/objects.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Why a call failed, by what the caller will do about it.
struct ApiError {
  enum class Kind {
    kNotFound,     // 404
    kConflict,     // 409: a precondition failed, or it was done already
    kRefused,      // any other 4xx, or a redirect: will not help to try again
    kUnavailable,  // 429, 503, or never sent: nothing happened, may be tried again
    kUnknown,      // sent, and no answer or another 5xx (a timeout, etcd's too): may have happened
  };
  Kind kind = Kind::kUnavailable;
  std::string message;  // one sentence, with the server's own words
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
  // For an answer whose body does not matter; `subject` begins the sentence of an error.
  void write(Request request, std::string subject, std::function<void(ApiResult<void>)> done);

  Executor& executor() { return transport_.executor(); }

 private:
  Transport& transport_;
};

// 2xx is no error.
ApiError api_error(const Response& response);

}  // namespace mgpu::kube
