#include "common/kube/memory/api_server.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/limits.h"
#include "common/kube/memory/cluster.h"
#include "common/kube/memory/verbs.h"
#include "common/kube/memory/watch.h"

namespace mgpu::kube {
namespace {

Response lost(std::string message, bool sent) {
  Response response;
  response.failure = TransportFailure{std::move(message), sent};
  return response;
}

Response fault_answer(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kRefuse:
      return lost("connection refused", false);
    case Fault::Kind::kLoseAnswer:
      return lost("the connection was lost before the answer", true);
    case Fault::Kind::kAnswer:
    case Fault::Kind::kDelay:
      break;
  }
  Response response = answer(fault.status, fault.body);
  response.retry_after = fault.retry_after;
  return response;
}

std::chrono::sys_seconds machine_time() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(std::shared_ptr<MemoryWatch> watch) : watch_(std::move(watch)) {}
  ~MemoryStream() override { watch_->close(); }

 private:
  std::shared_ptr<MemoryWatch> watch_;
};

using Faults = std::function<std::optional<Fault>(const Request&)>;

}  // namespace

struct MemoryApiServer::State {
  std::optional<Fault> fault_for(const Request& request);
  Response serve_locked(const Request& request);
  Response serve_with(const Request& request, const std::optional<Fault>& fault);
  Duration delay_with(const std::optional<Fault>& fault) const;

  Executor& executor;
  const Options options;
  const std::shared_ptr<GuardedCluster> guarded;
  Mutex mutex{};  // guards what follows; never held with guarded's
  std::shared_ptr<const Faults> faults MGPU_GUARDED_BY(mutex){};  // may be none
  std::vector<std::weak_ptr<MemoryWatch>> watches
      MGPU_GUARDED_BY(mutex){};  // the open ones, and some that have ended
};

std::optional<Fault> MemoryApiServer::State::fault_for(const Request& request) {
  std::shared_ptr<const Faults> ask;
  {
    const MutexLock lock(mutex);
    ask = faults;
  }
  return ask && *ask ? (*ask)(request) : std::nullopt;
}

Response MemoryApiServer::State::serve_locked(const Request& request) {
  const MutexLock lock(guarded->mutex);
  return serve(guarded->cluster, request);
}

Response MemoryApiServer::State::serve_with(const Request& request,
                                            const std::optional<Fault>& fault) {
  if (!fault || fault->kind == Fault::Kind::kDelay) return serve_locked(request);
  if (fault->kind == Fault::Kind::kLoseAnswer) serve_locked(request);
  return fault_answer(*fault);
}

Duration MemoryApiServer::State::delay_with(const std::optional<Fault>& fault) const {
  const bool delayed = fault && fault->kind == Fault::Kind::kDelay;
  return options.answer_delay + (delayed ? fault->delay : Duration(0));
}

MemoryApiServer::MemoryApiServer(Executor& executor, Options options)
    : state_(new State{executor, options,
                       std::make_shared<GuardedCluster>(executor, options.history_events,
                                                        options.start.value_or(machine_time()))}) {}

MemoryApiServer::~MemoryApiServer() {
  for (const auto& weak : state_->watches) {
    if (const auto watch = weak.lock()) watch->close();
  }
}

Executor& MemoryApiServer::executor() {
  return state_->executor;
}

Response MemoryApiServer::call(const Request& request) {
  return state_->serve_locked(request);
}

void MemoryApiServer::send(Request request, std::function<void(Response)> done) {
  const auto fault = state_->fault_for(request);
  const Duration delay = state_->delay_with(fault);
  const std::weak_ptr<State> weak = state_;
  state_->executor.post([weak, fault, delay, request = std::move(request), done = std::move(done)] {
    const auto state = weak.lock();
    if (!state) return;
    Response response = state->serve_with(request, fault);
    if (delay == Duration(0)) return done(std::move(response));
    const Duration timeout =
        request.timeout > Duration(0) ? request.timeout : Duration(kApiRequestTimeout);
    if (delay > timeout) response = lost("timed out", true);
    auto later = [weak, response, done] {
      if (!weak.expired()) done(response);
    };
    state->executor.after(std::min(delay, timeout), std::move(later));
  });
}

std::unique_ptr<Stream> MemoryApiServer::stream(Request request, StreamHandlers handlers) {
  const auto fault = state_->fault_for(request);
  auto watch =
      std::make_shared<MemoryWatch>(state_->executor, state_->guarded, std::move(handlers));
  {
    const MutexLock lock(state_->mutex);
    std::erase_if(state_->watches, [](const auto& weak) { return weak.expired(); });
    state_->watches.push_back(watch);
  }
  WatchRequest wanted = read_watch(request);
  if (fault && fault->kind != Fault::Kind::kDelay) wanted.refused = fault_answer(*fault);
  const Duration delay = state_->delay_with(fault);
  Task start = [weak = std::weak_ptr(watch), wanted = std::move(wanted),
                interval = state_->options.bookmark_interval] {
    if (const auto open = weak.lock()) open->start(wanted, interval);
  };
  if (delay == Duration(0)) {
    state_->executor.post(std::move(start));
  } else {
    state_->executor.after(delay, std::move(start));
  }
  return std::make_unique<MemoryStream>(std::move(watch));
}

void MemoryApiServer::set_faults(std::function<std::optional<Fault>(const Request&)> faults) {
  auto shared = std::make_shared<const Faults>(std::move(faults));
  const MutexLock lock(state_->mutex);
  state_->faults = std::move(shared);
}

void MemoryApiServer::drop_watches() {
  const MutexLock lock(state_->mutex);
  for (const auto& weak : state_->watches) {
    state_->executor.post([weak] {
      if (const auto watch = weak.lock()) watch->end(lost("the connection was lost", true));
    });
  }
}

void MemoryApiServer::compact() {
  const MutexLock lock(state_->guarded->mutex);
  state_->guarded->cluster.compact();
}

}  // namespace mgpu::kube
