#include "bench/apiserver/watch.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "bench/apiserver/limits.h"

namespace mgpu::kube {
namespace {

std::string line(std::string_view type, std::string_view object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object);
}

}  // namespace

void MemoryWatch::start(WatchRequest request, Duration bookmark_interval) {
  if (ended_) return;
  if (request.refused) return end(*std::move(request.refused));
  kind_ = request.kind;
  bookmark_interval_ = bookmark_interval;
  auto deliver_soon = [&executor = executor_, weak = weak_from_this()] {
    executor.post([weak] {
      if (const auto watch = weak.lock()) watch->deliver(false);
    });
  };
  queue_ = std::make_shared<WatchQueue>(std::move(request.filter), std::move(deliver_soon));
  bool attached = false;
  {
    const MutexLock lock(guarded_->mutex);
    attached = guarded_->cluster.attach(kind_, queue_, request.version);
  }
  const auto self = shared_from_this();  // a handler may close the watch
  events_.on_open(Encoding::kJson);
  if (ended_) return;
  if (!attached) return fail_as_expired(request.version.value_or(0));
  // kube-apiserver ends watches by itself after one to two times --min-request-timeout.
  const double factor = 1.0 + executor_.random();
  const auto standard = std::chrono::duration_cast<Duration>(kMemoryApiWatchTimeoutMin * factor);
  timeout_ = after(request.timeout ? Duration(*request.timeout) : standard, [](MemoryWatch& watch) {
    watch.deliver(false);
    watch.end(answer(200, ""));
  });
  if (!request.bookmarks) return;
  bookmark_ = after(bookmark_interval_, [](MemoryWatch& watch) { watch.deliver(true); });
}

void MemoryWatch::fail_as_expired(std::uint64_t version) {
  std::uint64_t newest = 0;
  {
    const MutexLock lock(guarded_->mutex);
    newest = guarded_->cluster.version();
  }
  const std::string message = fmt::format("too old resource version: {} ({})", version, newest);
  events_.on_line(
      line("ERROR", status_text({.code = 410, .reason = "Expired", .message = message})));
  end(answer(200, ""));
}

void MemoryWatch::end(Response response) {
  if (ended_) return;
  close();
  const auto self = shared_from_this();
  events_.on_end(std::move(response));
}

void MemoryWatch::close() {
  ended_ = true;
  queue_.reset();
  for (auto* const timer : {&timeout_, &bookmark_}) {
    if (*timer) executor_.cancel(**timer);
    timer->reset();
  }
}

void MemoryWatch::deliver(bool bookmark) {
  if (ended_) return;
  std::deque<WatchQueue::Entry> entries;
  std::uint64_t version = 0;
  {
    const MutexLock lock(guarded_->mutex);
    entries = queue_->take();
    version = guarded_->cluster.version();
  }
  const ServedKind& kind = served_kinds()[kind_];
  for (const auto& entry : entries) {
    events_.on_line(line(entry.type, full_text(kind, *entry.object)));
    if (ended_) return;
  }
  if (!bookmark) return;
  bookmark_ = after(bookmark_interval_, [](MemoryWatch& watch) { watch.deliver(true); });
  StoredObject object;
  object.text = fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}}}})", version);
  events_.on_line(line("BOOKMARK", full_text(kind, object)));
}

Executor::TimerId MemoryWatch::after(Duration delay, std::function<void(MemoryWatch&)> task) {
  return executor_.after(delay, [weak = weak_from_this(), task = std::move(task)] {
    if (const auto watch = weak.lock()) task(*watch);
  });
}

}  // namespace mgpu::kube
