#include "common/kube/memory/watch.h"

#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/kube/memory/limits.h"

namespace mgpu::kube {
namespace {

std::string line(std::string_view type, std::string_view object) {
  std::string text = R"({"type":")";
  text += type;
  text += R"(","object":)";
  text += object;
  text += '}';
  return text;
}

std::string bookmark_line(const ServedKind& kind, std::uint64_t version) {
  StoredObject object;
  object.text = R"({"metadata":{"resourceVersion":")" + std::to_string(version) + R"("}})";
  return line("BOOKMARK", full_text(kind, object));
}

}  // namespace

void MemoryWatch::start(WatchRequest request, Duration bookmark_interval) {
  if (ended_) return;
  if (request.refused) return end(*std::move(request.refused));
  kind_ = request.kind;
  const bool attached = attach(request);
  const auto self = shared_from_this();  // a handler may close the watch
  handlers_.on_open();
  if (ended_) return;
  if (!attached) return fail_as_expired(request.version.value_or(0));
  // kube-apiserver ends watches by itself after one to two times --min-request-timeout.
  const double factor = 1.0 + executor_.random();
  const auto standard = std::chrono::duration_cast<Duration>(kMemoryApiWatchTimeoutMin * factor);
  timeout_ = after(request.timeout ? Duration(*request.timeout) : standard, &MemoryWatch::expire);
  bookmark_interval_ = bookmark_interval;
  if (request.bookmarks) bookmark_ = after(bookmark_interval, &MemoryWatch::send_bookmark);
}

bool MemoryWatch::attach(WatchRequest& request) {
  auto wake = [&executor = executor_, weak = weak_from_this()] {
    executor.post([weak] {
      if (const auto watch = weak.lock()) watch->deliver();
    });
  };
  feed_ = std::make_shared<WatchFeed>(std::move(request.filter), std::move(wake));
  const MutexLock lock(guarded_->mutex);
  return guarded_->cluster.attach(kind_, feed_, request.version);
}

void MemoryWatch::fail_as_expired(std::uint64_t version) {
  std::uint64_t newest = 0;
  {
    const MutexLock lock(guarded_->mutex);
    newest = guarded_->cluster.version();
  }
  const std::string message =
      "too old resource version: " + std::to_string(version) + " (" + std::to_string(newest) + ")";
  handlers_.on_line(
      line("ERROR", status_text({.code = 410, .reason = "Expired", .message = message})));
  if (!ended_) end(answer(200, ""));
}

void MemoryWatch::end(Response response) {
  if (ended_) return;
  close();
  const auto self = shared_from_this();
  handlers_.on_end(std::move(response));
}

void MemoryWatch::close() {
  ended_ = true;
  feed_.reset();
  for (auto* const timer : {&timeout_, &bookmark_}) {
    if (*timer) executor_.cancel(**timer);
    timer->reset();
  }
}

void MemoryWatch::deliver() {
  if (ended_) return;
  std::deque<WatchFeed::Entry> entries;
  {
    const MutexLock lock(guarded_->mutex);
    entries = feed_->take();
  }
  send_lines(entries);
}

void MemoryWatch::send_bookmark() {
  if (ended_) return;
  std::deque<WatchFeed::Entry> entries;
  std::uint64_t version = 0;
  {
    const MutexLock lock(guarded_->mutex);
    entries = feed_->take();
    version = guarded_->cluster.version();
  }
  send_lines(entries);
  if (ended_) return;
  bookmark_ = after(bookmark_interval_, &MemoryWatch::send_bookmark);
  handlers_.on_line(bookmark_line(served_kinds()[kind_], version));
}

void MemoryWatch::expire() {
  deliver();
  end(answer(200, ""));
}

void MemoryWatch::send_lines(const std::deque<WatchFeed::Entry>& entries) {
  const ServedKind& kind = served_kinds()[kind_];
  for (const auto& entry : entries) {
    if (ended_) return;
    handlers_.on_line(line(entry.type, full_text(kind, *entry.object)));
  }
}

Executor::TimerId MemoryWatch::after(Duration delay, void (MemoryWatch::*task)()) {
  return executor_.after(delay, [weak = weak_from_this(), task] {
    if (const auto watch = weak.lock()) (*watch.*task)();
  });
}

}  // namespace mgpu::kube
