#include "test/support/faulty_api_server.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "bench/apiserver/json.h"
#include "bench/apiserver/verbs.h"
#include "common/kube/limits.h"

namespace mgpu::test {
namespace {

using kube::Request;
using kube::Response;

constexpr std::string_view kTokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kAccessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
constexpr std::string_view kAllRights = "system:masters";

// --- faults --------------------------------------------------------------------------------------

Response lost(std::string message, bool sent) {
  Response response;
  response.failure = kube::TransportFailure{std::move(message), sent};
  return response;
}

// REQUIRES: the fault is not a delay.
Response fault_answer(const Fault& fault) {
  using Kind = Fault::Kind;
  if (fault.kind == Kind::kRefuse) return lost("connection refused", false);
  if (fault.kind == Kind::kLoseAnswer || (fault.kind == Kind::kServeLater && fault.status == 0)) {
    return lost("the connection was lost before the answer", true);
  }
  Response response =
      kube::answer(fault.status, fault.body.value_or(kube::status_text({.code = fault.status})));
  response.retry_after = fault.retry_after;
  return response;
}

// --- reviews -------------------------------------------------------------------------------------

bool is_review(const Request& request) {
  return request.method == kube::Method::kPost &&
         (request.target == kTokenReviews || request.target == kAccessReviews);
}

// The status of a TokenReview; `user` is null if the token is not valid.
kube::Json status_of_token(const kube::UserInfo* user) {
  if (user == nullptr) return {{"user", kube::Json::object()}, {"error", "invalid bearer token"}};
  return {{"authenticated", true},
          {"user",
           {{"username", user->name},
            {"uid", user->uid},
            {"groups", user->groups},
            {"extra", user->extra}}}};
}

// The status of a SubjectAccessReview.
kube::Json status_of_access(const kube::Json& review) {
  const kube::Json& groups = kube::member_at(review, "spec.groups");
  const bool allowed =
      groups.is_array() && std::ranges::find(groups, kube::Json(kAllRights)) != groups.end();
  return {{"allowed", allowed}};
}

}  // namespace

// --- watches -------------------------------------------------------------------------------------

// A watch whose server can end it. All but open() runs on the executor.
class FaultyApiServer::Watch : public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(kube::StreamEvents events) : events_(std::move(events)) {}

  // Opens the watch at `server`, without faults. REQUIRES: it is called at most once.
  void open(kube::MemoryApiServer& server, Request request) {
    kube::StreamEvents inner;
    inner.on_open = [weak = weak_from_this()](kube::Encoding encoding) {
      const auto watch = weak.lock();
      if (watch && !watch->ended_) watch->events_.on_open(encoding);
    };
    inner.on_line = [weak = weak_from_this()](std::string_view line) {
      const auto watch = weak.lock();
      if (watch && !watch->ended_) watch->events_.on_line(line);
    };
    inner.on_end = [weak = weak_from_this()](Response response) {
      if (const auto watch = weak.lock()) watch->end(std::move(response));
    };
    inner_ = server.MemoryApiServer::stream(std::move(request), std::move(inner));
  }
  bool ended() const { return ended_; }
  // The server ends the watch.
  void end(Response response) {
    if (!std::exchange(ended_, true)) events_.on_end(std::move(response));
  }
  // The client ends the watch.
  void close() {
    ended_ = true;
    inner_.reset();
  }

 private:
  kube::StreamEvents events_;
  std::unique_ptr<kube::Stream> inner_;
  bool ended_ = false;
};

std::unique_ptr<kube::Stream> FaultyApiServer::stream(Request request, kube::StreamEvents events) {
  struct Open final : kube::Stream {
    explicit Open(std::shared_ptr<Watch> opened) : watch(std::move(opened)) {}
    ~Open() override { watch->close(); }
    std::shared_ptr<Watch> watch;
  };
  const auto fault = fault_for(request);
  auto watch = std::make_shared<Watch>(std::move(events));
  {
    const MutexLock lock(mutex_);
    std::erase_if(watches_, [](const auto& weak) { return weak.expired(); });
    watches_.push_back(watch);
  }
  if (!fault) {
    watch->open(*this, std::move(request));
    return std::make_unique<Open>(std::move(watch));
  }
  const bool is_late = fault->kind == Fault::Kind::kDelay;
  auto begin = [this, fault, is_late, weak = std::weak_ptr(watch), request = std::move(request)] {
    const auto begun = weak.lock();
    if (!begun || begun->ended()) return;
    is_late ? begun->open(*this, request) : begun->end(fault_answer(*fault));
  };
  executor().after(is_late ? fault->delay : Duration(0), callbacks_.wrap(std::move(begin)));
  return std::make_unique<Open>(std::move(watch));
}

void FaultyApiServer::drop_watches() {
  const MutexLock lock(mutex_);
  for (const auto& weak : watches_) {
    executor().post(callbacks_.wrap([weak] {
      if (const auto watch = weak.lock()) watch->end(lost("the connection was lost", true));
    }));
  }
}

// --- requests ------------------------------------------------------------------------------------

void FaultyApiServer::send(Request request, std::function<void(Response)> done) {
  auto fault = fault_for(request);
  if (!fault && !is_review(request)) {
    return MemoryApiServer::send(std::move(request), std::move(done));
  }
  executor().post(callbacks_.wrap(
      [this, fault = std::move(fault), request = std::move(request), done = std::move(done)] {
        fault ? fail(*fault, request, done) : done(serve(request));
      }));
}

void FaultyApiServer::fail(const Fault& fault, const Request& request,
                           const std::function<void(Response)>& done) {
  using Kind = Fault::Kind;
  if (fault.kind == Kind::kLoseAnswer) serve(request);
  if (fault.kind == Kind::kServeLater) {
    executor().after(fault.delay, callbacks_.wrap([this, request] { serve(request); }));
  }
  if (fault.kind != Kind::kDelay) return done(fault_answer(fault));
  const Duration timeout =
      request.timeout > Duration(0) ? request.timeout : Duration(kube::kApiRequestTimeout);
  Response response = serve(request);
  if (fault.delay > timeout) response = lost("timed out", true);
  executor().after(std::min(fault.delay, timeout),
                   callbacks_.wrap([response, done] { done(response); }));
}

Response FaultyApiServer::serve(const Request& request) try {
  if (!is_review(request)) return call(request);
  const bool is_token = request.target == kTokenReviews;
  kube::Json review = kube::read_body(is_token ? "TokenReview" : "SubjectAccessReview", request);
  const std::string token = kube::text_at(review, "spec.token");
  if (is_token && token.empty()) throw kube::bad_request("spec.token: Required value");
  if (is_token) {
    const MutexLock lock(mutex_);
    const auto user = tokens_.find(token);
    review["status"] = status_of_token(user == tokens_.end() ? nullptr : &user->second);
  } else {
    review["status"] = status_of_access(review);
  }
  return kube::answer(201, review.dump(-1, ' ', false, kube::Json::error_handler_t::replace));
} catch (const kube::Refusal& refusal) {
  return kube::answer(refusal.code, kube::status_text(refusal));
}

std::optional<Fault> FaultyApiServer::fault_for(const Request& request) {
  Faults faults;
  {
    const MutexLock lock(mutex_);
    faults = faults_;
  }
  return faults ? faults(request) : std::nullopt;
}

void FaultyApiServer::set_faults(Faults faults) {
  const MutexLock lock(mutex_);
  faults_ = std::move(faults);
}

void FaultyApiServer::set_token(const std::string& token, kube::UserInfo user) {
  const MutexLock lock(mutex_);
  tokens_.insert_or_assign(token, std::move(user));
}

}  // namespace mgpu::test
