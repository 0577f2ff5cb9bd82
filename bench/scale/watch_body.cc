#include "bench/scale/watch_body.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"

namespace mgpu::bench {
namespace {

// Lines that a client has not read yet; with more, the watch ends.
constexpr std::size_t kUnreadBytesMax = std::size_t{64} << 20;

// Thread-safe.
class WatchBody {
 public:
  void add(std::string_view line) {
    const MutexLock lock(mutex_);
    if (unread_.size() > kUnreadBytesMax) ended_ = true;
    if (ended_) return;
    unread_.append(line).append("\n");
    flush();
  }
  void end() {
    const MutexLock lock(mutex_);
    ended_ = true;
    flush();
  }
  void next(http::GivePart give) {
    const MutexLock lock(mutex_);
    give_ = std::move(give);
    flush();
  }

 private:
  void flush() MGPU_REQUIRES(mutex_) {
    if (!give_ || (unread_.empty() && !ended_)) return;
    std::exchange(give_, nullptr)(std::exchange(unread_, ""));
  }

  Mutex mutex_;
  std::string unread_ MGPU_GUARDED_BY(mutex_);
  bool ended_ MGPU_GUARDED_BY(mutex_) = false;
  http::GivePart give_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace

void respond_with_watch(kube::MemoryApiServer& server, kube::Request request,
                        const http::Respond& respond) {
  const auto body = std::make_shared<WatchBody>();
  std::shared_ptr<kube::Stream> stream = server.stream(
      std::move(request), {.on_open = [](kube::Encoding) {},
                           .on_line = [body](std::string_view line) { body->add(line); },
                           .on_end = [body](const kube::Response&) { body->end(); }});
  // Streams are destroyed on the executor.
  const std::shared_ptr<void> watch(nullptr, [&server, stream](void*) mutable {
    server.executor().post([kept = std::move(stream)] {});
  });
  respond({.content_type = "application/json", .body = {}, .next_part = [body, watch](auto give) {
             body->next(std::move(give));
           }});
}

}  // namespace mgpu::bench
