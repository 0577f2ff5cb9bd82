#include "bench/apiserver/api_server.h"

#include <algorithm>
#include <utility>

#include "bench/apiserver/cluster.h"
#include "bench/apiserver/verbs.h"
#include "bench/apiserver/watch.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

Response lost(std::string message, bool sent) {
  Response response;
  response.failure = TransportFailure{std::move(message), sent};
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
      answer(fault.status, fault.body.value_or(status_text({.code = fault.status})));
  response.retry_after = fault.retry_after;
  return response;
}

Duration delay_of(const std::optional<Fault>& fault) {
  return fault && fault->kind == Fault::Kind::kDelay ? fault->delay : Duration(0);
}

class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(std::shared_ptr<MemoryWatch> watch) : watch_(std::move(watch)) {}
  ~MemoryStream() override { watch_->close(); }

 private:
  std::shared_ptr<MemoryWatch> watch_;
};

}  // namespace

MemoryApiServer::MemoryApiServer(Executor& executor, Options options)
    : executor_(executor),
      options_(options),
      guarded_(std::make_shared<GuardedCluster>(
          executor, options.history_events,
          options.start.value_or(
              std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())))) {}

MemoryApiServer::~MemoryApiServer() {
  callbacks_.close();
  for (const auto& weak : watches_) {
    if (const auto watch = weak.lock()) watch->close();
  }
}

Response MemoryApiServer::call(const Request& request) {
  const MutexLock lock(guarded_->mutex);
  return serve(guarded_->cluster, request);
}

std::optional<Fault> MemoryApiServer::fault_for(const Request& request) {
  Faults faults;
  {
    const MutexLock lock(mutex_);
    faults = faults_;
  }
  return faults ? faults(request) : std::nullopt;
}

void MemoryApiServer::send(Request request, std::function<void(Response)> done) {
  auto serve = [this, fault = fault_for(request), request, done = std::move(done)] {
    using Kind = Fault::Kind;
    Response response;
    if (!fault || fault->kind == Kind::kDelay || fault->kind == Kind::kLoseAnswer) {
      response = call(request);
    }
    if (fault && fault->kind == Kind::kServeLater) {
      executor_.after(fault->delay, callbacks_.wrap([this, request] { call(request); }));
    }
    if (fault && fault->kind != Kind::kDelay) response = fault_answer(*fault);
    const Duration delay = delay_of(fault);
    if (delay == Duration(0)) return done(std::move(response));
    const Duration timeout =
        request.timeout > Duration(0) ? request.timeout : Duration(kApiRequestTimeout);
    if (delay > timeout) response = lost("timed out", true);
    executor_.after(std::min(delay, timeout),
                    callbacks_.wrap([response, done] { done(response); }));
  };
  executor_.post(callbacks_.wrap(std::move(serve)));
}

std::unique_ptr<Stream> MemoryApiServer::stream(Request request, StreamEvents events) {
  const auto fault = fault_for(request);
  auto watch = std::make_shared<MemoryWatch>(executor_, guarded_, std::move(events));
  {
    const MutexLock lock(mutex_);
    std::erase_if(watches_, [](const auto& weak) { return weak.expired(); });
    watches_.push_back(watch);
  }
  WatchRequest wanted = read_watch(request);
  if (fault && fault->kind != Fault::Kind::kDelay) wanted.refused = fault_answer(*fault);
  Task start = [weak = std::weak_ptr(watch), wanted = std::move(wanted),
                interval = options_.bookmark_interval] {
    if (const auto open = weak.lock()) open->start(wanted, interval);
  };
  const Duration delay = delay_of(fault);
  if (delay == Duration(0)) {
    executor_.post(std::move(start));
  } else {
    executor_.after(delay, std::move(start));
  }
  return std::make_unique<MemoryStream>(std::move(watch));
}

void MemoryApiServer::set_faults(Faults faults) {
  const MutexLock lock(mutex_);
  faults_ = std::move(faults);
}

void MemoryApiServer::set_token(const std::string& token, UserInfo user) {
  const MutexLock lock(guarded_->mutex);
  guarded_->cluster.tokens().insert_or_assign(token, std::move(user));
}

void MemoryApiServer::drop_watches() {
  const MutexLock lock(mutex_);
  for (const auto& weak : watches_) {
    executor_.post([weak] {
      if (const auto watch = weak.lock()) watch->end(lost("the connection was lost", true));
    });
  }
}

void MemoryApiServer::compact() {
  const MutexLock lock(guarded_->mutex);
  guarded_->cluster.compact();
}

}  // namespace mgpu::kube
