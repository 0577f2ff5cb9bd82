// Decides whether a request may read a path, by its bearer token, as Kubernetes' own components do:
//
//   token --TokenReview--> user --SubjectAccessReview--> may the user use the method on the path?
//
// Results are kept for kAccessKept, by the digest of token, method and path. If the API server does
// not answer, the request is refused. Tokens are neither logged nor kept. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/http/message.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"

namespace mgpu {

// Either `allowed`, or the response to the client: 401 without a valid token, 403 without the
// right, 503 if the token cannot be checked now.
struct Access {
  bool allowed = false;
  http::Response refusal{};
};

class TokenAccess {
 public:
  // `transport` outlives it.
  explicit TokenAccess(kube::Transport& transport) : transport_(transport) {}

  // `done` is called at most once: at once, or on the transport's executor. It is not called after
  // the destructor has returned.
  void check(const http::Request& request, std::function<void(Access)> done);

 private:
  struct Check;
  struct Kept {
    Access access;
    Instant until{};
  };

  bool find(const std::string& key, Instant now, Access& access);
  bool begin(const std::string& key, Instant now);
  void on_token(const Check& check, const kube::Response& response);
  void on_access(const Check& check, const std::string& user, const kube::Response& response);
  void end(const Check& check, Access access);
  void cannot_check(const Check& check, const std::string& problem);
  void make_room(Instant now) MGPU_REQUIRES(mutex_);

  kube::Transport& transport_;
  Mutex mutex_;
  std::map<std::string, Kept> kept_ MGPU_GUARDED_BY(mutex_);
  std::size_t running_ MGPU_GUARDED_BY(mutex_) = 0;
  Instant second_ MGPU_GUARDED_BY(mutex_){};  // the begin of the second that started_ counts
  std::size_t started_ MGPU_GUARDED_BY(mutex_) = 0;
  std::string problem_ MGPU_GUARDED_BY(mutex_);  // the last one that was logged
  CallbackGuard callbacks_;
};

}  // namespace mgpu
