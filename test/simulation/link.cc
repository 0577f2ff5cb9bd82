#include "test/simulation/link.h"

#include <algorithm>
#include <utility>

namespace mgpu::simulation {
namespace {

using kube::Request;
using kube::Response;
using Done = std::function<void(Response)>;

constexpr double kLatencyMaxMs = 20;
constexpr double kLateMaxMs = 20'000;
constexpr double kEtcdLateMaxMs = 200;
constexpr double kSlowMaxMs = 3'000;

bool is_bind(const Request& request) {
  return request.method == kube::Method::kPost && request.target.ends_with("/binding");
}

bool is_get_of_one(const Request& request) {
  return request.method == kube::Method::kGet && request.target.find('?') == std::string::npos;
}

std::optional<Fate> take(std::deque<Fate>& fates) {
  if (fates.empty()) return std::nullopt;
  const Fate fate = fates.front();
  fates.pop_front();
  return fate;
}

Response failure(bool sent) {
  Response response;
  response.failure = kube::TransportFailure{"connection lost", sent};
  return response;
}

Response status(int code, std::string reason, std::string message) {
  Response response;
  response.status = code;
  response.body = R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":")" + reason +
                  R"(","message":")" + message + R"(","code":)" + std::to_string(code) + "}";
  return response;
}

}  // namespace

Fate Fates::next(const Request& request) {
  if (is_bind(request)) {
    if (const auto fate = take(of_binds)) return *fate;
  }
  return take(of_any).value_or(Fate::kServed);
}

// --- requests ------------------------------------------------------------------------------------

std::string_view text_of(Fate fate) {
  switch (fate) {
    case Fate::kServed:
      return "served";
    case Fate::kRefused:
      return "never sent";
    case Fate::kRequestLost:
      return "lost before it is served";
    case Fate::kAnswerLost:
      return "served, the answer is lost";
    case Fate::kServedLate:
      return "served seconds later, without an answer";
    case Fate::kTooManyRequests:
      return "429";
    case Fate::kUnavailable:
      return "503, not served";
    case Fate::kUnavailableProxy:
      return "503 by a proxy, served";
    case Fate::kErrorNotServed:
      return "500, not served";
    case Fate::kErrorServed:
      return "500, served";
    case Fate::kConflictOfEtcd:
      return "409, served a moment later";
    case Fate::kAnswerSlow:
      return "served, the answer takes seconds";
  }
  return "";
}

Link::Link(kube::MemoryApiServer& server, Fates& fates) : server_(server), fates_(fates) {}

Link::~Link() = default;

Duration Link::latency() {
  return Duration(1 + static_cast<int>(executor().random() * kLatencyMaxMs));
}

void Link::send(Request request, Done done) {
  const Fate fate = fates_.next(request);
  if (gets_at_once_ && is_get_of_one(request)) return serve(request, fate, done);
  const std::weak_ptr<Exists> exists = exists_;
  // The answer reaches a process that still exists, in time.
  const Duration limit = request.timeout.count() > 0 ? request.timeout : kube::kApiRequestTimeout;
  const auto answered = std::make_shared<bool>(false);
  const Done once = [exists, answered, done = std::move(done)](Response response) {
    if (exists.expired() || std::exchange(*answered, true)) return;
    done(std::move(response));
  };
  executor().after(limit, [once] { once(failure(true)); });
  const Duration back = latency();
  const Done later = [this, exists, once, back](Response response) {
    if (exists.expired()) return;
    executor().after(back, [once, response = std::move(response)] { once(response); });
  };
  // The request travels by itself: its process may end.
  kube::MemoryApiServer& server = server_;
  const auto serve_then = [&server, request](const Done& with) { with(server.call(request)); };
  const auto after = [this](Duration delay, Task task) {
    executor().after(delay, std::move(task));
  };
  const Duration there = latency();
  const auto late = [this](double most) {
    return Duration(1 + static_cast<int>(executor().random() * most));
  };
  const Done ignore = [](const Response&) {};
  switch (fate) {
    case Fate::kServed:
      return after(there, [serve_then, later] { serve_then(later); });
    case Fate::kRefused:
      return after(there, [once] { once(failure(false)); });
    case Fate::kRequestLost:
      return after(there, [once] { once(failure(true)); });
    case Fate::kAnswerLost:
      return after(there, [serve_then, once, ignore] {
        serve_then(ignore);
        once(failure(true));
      });
    case Fate::kServedLate:
      after(there, [once] { once(failure(true)); });
      return after(there + late(kLateMaxMs), [serve_then, ignore] { serve_then(ignore); });
    case Fate::kTooManyRequests:
      return after(there, [later] { later(status(429, "TooManyRequests", "try again")); });
    case Fate::kUnavailable:
      return after(there, [later] { later(status(503, "ServiceUnavailable", "try again")); });
    case Fate::kUnavailableProxy:
      return after(there, [serve_then, later, ignore] {
        serve_then(ignore);
        later({.status = 503, .body = "upstream", .retry_after = {}, .failure = {}});
      });
    case Fate::kErrorNotServed:
      return after(there, [later] { later(status(500, "InternalError", "etcd")); });
    case Fate::kErrorServed:
      return after(there, [serve_then, later, ignore] {
        serve_then(ignore);
        later(status(500, "InternalError", "etcdserver: request timed out"));
      });
    case Fate::kAnswerSlow:
      return after(there, [serve_then, once, slow = late(kSlowMaxMs), &executor = executor()] {
        serve_then([once, slow, &executor](const Response& response) {
          executor.after(slow, [once, response] { once(response); });
        });
      });
    case Fate::kConflictOfEtcd:
      after(there, [later] { later(status(409, "Conflict", "etcdserver: leader changed")); });
      return after(there + late(kEtcdLateMaxMs), [serve_then, ignore] { serve_then(ignore); });
  }
}

void Link::serve(const Request& request, Fate fate, const Done& done) {
  if (fate == Fate::kServed || fate == Fate::kErrorServed) return done(server_.call(request));
  done(failure(false));
}

// --- watches -------------------------------------------------------------------------------------

class Link::Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(Executor& executor, std::shared_ptr<Duration> lag, kube::StreamHandlers handlers)
      : executor_(executor), lag_(std::move(lag)), handlers_(std::move(handlers)) {}

  void open(kube::MemoryApiServer& server, Request request) {
    kube::StreamHandlers inner;
    inner.on_open = [this] { deliver([this] { handlers_.on_open(); }); };
    inner.on_line = [this](std::string_view line) {
      deliver([this, line = std::string(line)] { handlers_.on_line(line); });
    };
    inner.on_end = [this](Response response) {
      deliver([this, response = std::move(response)] { end(response); });
    };
    inner_ = server.stream(std::move(request), std::move(inner));
  }

  void break_off() {
    inner_.reset();
    if (!ended_) end(failure(true));
  }
  void close() {
    ended_ = true;
    inner_.reset();
  }

 private:
  // In the order of the calls, though the delay may change.
  void deliver(Task task) {
    constexpr double kMost = 10;
    const Duration delay = Duration(static_cast<int>(executor_.random() * kMost)) + *lag_;
    last_ = std::max(last_, executor_.now() + delay);
    executor_.after(last_ - executor_.now(), [watch = weak_from_this(), task = std::move(task)] {
      const auto open = watch.lock();
      if (open && !open->ended_) task();
    });
  }
  void end(const Response& response) {
    ended_ = true;
    handlers_.on_end(response);
  }

  Executor& executor_;
  std::shared_ptr<Duration> lag_;
  kube::StreamHandlers handlers_;
  std::unique_ptr<kube::Stream> inner_;
  Instant last_{};
  bool ended_ = false;
};

std::unique_ptr<kube::Stream> Link::stream(Request request, kube::StreamHandlers handlers) {
  struct Open final : kube::Stream {
    explicit Open(std::shared_ptr<Watch> opened) : watch(std::move(opened)) {}
    ~Open() override { watch->close(); }
    std::shared_ptr<Watch> watch;
  };
  auto watch = std::make_shared<Watch>(executor(), lag_, std::move(handlers));
  watch->open(server_, std::move(request));
  std::erase_if(watches_, [](const auto& old) { return old.expired(); });
  watches_.push_back(watch);
  return std::make_unique<Open>(std::move(watch));
}

void Link::break_watches() {
  const auto watches = watches_;
  for (const auto& weak : watches) {
    if (const auto watch = weak.lock()) watch->break_off();
  }
}

}  // namespace mgpu::simulation
