#include "test/support/faulty_api_server.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "bench/apiserver/json.h"
#include "common/kube/limits.h"

namespace mgpu::test {
namespace {

using kube::Request;
using kube::Response;

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
  if (!fault) return MemoryApiServer::send(std::move(request), std::move(done));
  executor().post(callbacks_.wrap([this, fault = std::move(fault), request = std::move(request),
                                   done = std::move(done)] { fail(*fault, request, done); }));
}

void FaultyApiServer::fail(const Fault& fault, const Request& request,
                           const std::function<void(Response)>& done) {
  using Kind = Fault::Kind;
  if (fault.kind == Kind::kLoseAnswer) call(request);
  if (fault.kind == Kind::kServeLater) {
    executor().after(fault.delay, callbacks_.wrap([this, request] { call(request); }));
  }
  if (fault.kind != Kind::kDelay) return done(fault_answer(fault));
  const Duration timeout =
      request.timeout > Duration(0) ? request.timeout : Duration(kube::kApiRequestTimeout);
  Response response = call(request);
  if (fault.delay > timeout) response = lost("timed out", true);
  executor().after(std::min(fault.delay, timeout),
                   callbacks_.wrap([response, done] { done(response); }));
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

}  // namespace mgpu::test
