#include "bench/apiserver/api_server.h"

#include <utility>

#include "bench/apiserver/cluster.h"
#include "bench/apiserver/verbs.h"
#include "bench/apiserver/watch.h"

namespace mgpu::kube {
namespace {

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

void MemoryApiServer::send(Request request, std::function<void(Response)> done) {
  executor_.post(callbacks_.wrap(
      [this, request = std::move(request), done = std::move(done)] { done(call(request)); }));
}

std::unique_ptr<Stream> MemoryApiServer::stream(Request request, StreamEvents events) {
  auto watch = std::make_shared<MemoryWatch>(executor_, guarded_, std::move(events));
  {
    const MutexLock lock(mutex_);
    std::erase_if(watches_, [](const auto& weak) { return weak.expired(); });
    watches_.push_back(watch);
  }
  executor_.post([weak = std::weak_ptr(watch), wanted = read_watch(request),
                  interval = options_.bookmark_interval] {
    if (const auto open = weak.lock()) open->start(wanted, interval);
  });
  return std::make_unique<MemoryStream>(std::move(watch));
}

void MemoryApiServer::compact() {
  const MutexLock lock(guarded_->mutex);
  guarded_->cluster.compact();
}

}  // namespace mgpu::kube
