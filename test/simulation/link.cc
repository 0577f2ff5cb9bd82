#include "test/simulation/link.h"

#include <algorithm>
#include <optional>
#include <string>
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

std::optional<Fault> take(std::deque<Fault>& faults) {
  if (faults.empty()) return std::nullopt;
  const Fault fault = faults.front();
  faults.pop_front();
  return fault;
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

// The answer of the faults that have one.
std::optional<Response> error_of(Fault fault) {
  switch (fault) {
    case Fault::kTooManyRequests:
      return status(429, "TooManyRequests", "try again");
    case Fault::kUnavailable:
      return status(503, "ServiceUnavailable", "try again");
    case Fault::kUnavailableProxy:
      return Response{.status = 503, .body = "upstream", .retry_after = {}, .failure = {}};
    case Fault::kErrorNotServed:
      return status(500, "InternalError", "etcd");
    case Fault::kErrorServed:
      return status(500, "InternalError", "etcdserver: request timed out");
    case Fault::kForbidden:
      return status(403, "Forbidden", "a policy refuses it");
    case Fault::kConflictOfEtcd:
      return status(409, "Conflict", "etcdserver: leader changed");
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Fault> refusal_of(const Request& request) {
  const std::string_view target = request.target;
  if (request.method == kube::Method::kGet) return std::nullopt;
  if (target.starts_with("/api/v1/namespaces/a/")) return Fault::kForbidden;
  if (target.ends_with("3/status")) return Fault::kForbidden;
  if (target.ends_with("7/status")) return Fault::kErrorNotServed;
  return std::nullopt;
}

Fault FaultQueue::next(const Request& request) {
  if (const auto refusal = refuses_objects ? refusal_of(request) : std::nullopt) return *refusal;
  if (is_bind(request)) {
    if (const auto fault = take(of_binds)) return *fault;
  }
  return take(of_any).value_or(Fault::kNone);
}

// --- requests ------------------------------------------------------------------------------------

std::string_view text_of(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "served";
    case Fault::kRefused:
      return "never sent";
    case Fault::kRequestLost:
      return "lost before it is served";
    case Fault::kAnswerLost:
      return "served, the answer is lost";
    case Fault::kServedLate:
      return "served seconds later, without an answer";
    case Fault::kTooManyRequests:
      return "429";
    case Fault::kUnavailable:
      return "503, not served";
    case Fault::kUnavailableProxy:
      return "503 by a proxy, served";
    case Fault::kErrorNotServed:
      return "500, not served";
    case Fault::kErrorServed:
      return "500, served";
    case Fault::kConflictOfEtcd:
      return "409, served a moment later";
    case Fault::kAnswerSlow:
      return "served, the answer takes seconds";
    case Fault::kForbidden:
      return "403";
  }
  return "";
}

Link::Link(kube::MemoryApiServer& server, FaultQueue& faults, OnServed on_served)
    : server_(server),
      faults_(faults),
      on_served_(std::move(on_served)),
      clock_(server.executor()) {}

Link::~Link() = default;

Duration Link::latency() {
  return Duration(1 + static_cast<int>(world().random() * kLatencyMaxMs));
}

void Link::send(Request request, Done done) {
  const bool cut = is_cut();
  const Fault fault = cut ? Fault::kNone : faults_.next(request);
  if (gets_at_once_ && is_get_of_one(request)) return done(answer_at_once(request, fault));
  const std::weak_ptr<Exists> exists = exists_;
  // The answer reaches a process that still exists and is not frozen, in time.
  const Duration limit = request.timeout.count() > 0 ? request.timeout : kube::kApiRequestTimeout;
  const auto answered = std::make_shared<bool>(false);
  const Done once = [this, exists, answered, done = std::move(done)](Response response) {
    if (exists.expired()) return;
    clock_.post([answered, done, response = std::move(response)] {
      if (!std::exchange(*answered, true)) done(response);
    });
  };
  clock_.after(limit, [once] { once(failure(true)); });
  const Duration back = latency();
  const Done later = [this, exists, once, back](Response response) {
    if (exists.expired()) return;
    world().after(back, [once, response = std::move(response)] { once(response); });
  };
  // The request travels by itself: its process may end.
  kube::MemoryApiServer& server = server_;
  const auto serve_then = [&server, request, on_served = on_served_](const Done& with) {
    const Response response = server.call(request);
    if (on_served) on_served(request, response);
    with(response);
  };
  const auto after = [this](Duration delay, Task task) { world().after(delay, std::move(task)); };
  if (cut && cut_ == Cut::kLost) return;
  const Duration there = latency() + delay_of(request);
  const auto late = [this](double most) {
    return Duration(1 + static_cast<int>(world().random() * most));
  };
  const Done ignore = [](const Response&) {};
  switch (fault) {
    case Fault::kNone:
      return after(there, [serve_then, later] { serve_then(later); });
    case Fault::kRefused:
      return after(there, [once] { once(failure(false)); });
    case Fault::kRequestLost:
      return after(there, [once] { once(failure(true)); });
    case Fault::kAnswerLost:
      return after(there, [serve_then, once, ignore] {
        serve_then(ignore);
        once(failure(true));
      });
    case Fault::kServedLate:
      after(there, [once] { once(failure(true)); });
      return after(there + late(kLateMaxMs), [serve_then, ignore] { serve_then(ignore); });
    case Fault::kTooManyRequests:
    case Fault::kUnavailable:
    case Fault::kErrorNotServed:
    case Fault::kForbidden:
      return after(there, [fault, later] { later(*error_of(fault)); });
    case Fault::kUnavailableProxy:
    case Fault::kErrorServed:
      return after(there, [fault, serve_then, later, ignore] {
        serve_then(ignore);
        later(*error_of(fault));
      });
    case Fault::kAnswerSlow:
      return after(there, [serve_then, once, slow = late(kSlowMaxMs), &world = world()] {
        serve_then([once, slow, &world](const Response& response) {
          world.after(slow, [once, response] { once(response); });
        });
      });
    case Fault::kConflictOfEtcd:
      after(there, [fault, later] { later(*error_of(fault)); });
      return after(there + late(kEtcdLateMaxMs), [serve_then, ignore] { serve_then(ignore); });
  }
}

// How much later the request reaches the server than others do.
Duration Link::delay_of(const Request& request) {
  const Duration cut = std::max(Duration(0), cut_until_ - world().now());
  if (!before_next_bind_ || !is_bind(request)) return cut;
  return cut + std::exchange(before_next_bind_, {})();
}

// What a caller gets that cannot wait for seconds.
Response Link::answer_at_once(const Request& request, Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return server_.call(request);
    case Fault::kRefused:
      return failure(false);
    case Fault::kRequestLost:
    case Fault::kAnswerLost:
    case Fault::kServedLate:
    case Fault::kAnswerSlow:
      return failure(true);
    default:
      return *error_of(fault);
  }
}

// --- watches -------------------------------------------------------------------------------------

class Link::Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(Executor& world, ProcessClock& clock, std::shared_ptr<Duration> lag,
        kube::StreamEvents events)
      : world_(world), clock_(clock), lag_(std::move(lag)), events_(std::move(events)) {}

  void open(kube::MemoryApiServer& server, Request request) {
    kube::StreamEvents inner;
    inner.on_open = [this](kube::Encoding encoding) {
      deliver([this, encoding] { events_.on_open(encoding); });
    };
    inner.on_line = [this](std::string_view line) {
      deliver([this, line = std::string(line)] { events_.on_line(line); });
    };
    inner.on_end = [this](Response response) {
      deliver([this, response = std::move(response)] { end(response); });
    };
    inner_ = server.stream(std::move(request), std::move(inner));
  }

  // Lines that are under way are lost.
  void break_off() {
    if (ended_ || std::exchange(broken_, true)) return;
    inner_.reset();
    clock_.post([watch = weak_from_this()] {
      const auto open = watch.lock();
      if (open && !open->ended_) open->end(failure(true));
    });
  }
  void close() {
    ended_ = true;
    inner_.reset();
  }

 private:
  // In the order of the calls, though the delay may change.
  void deliver(Task task) {
    constexpr double kMost = 10;
    const Duration delay = Duration(static_cast<int>(world_.random() * kMost)) + *lag_;
    last_ = std::max(last_, world_.now() + delay);
    const Task arrive = [watch = weak_from_this(), task = std::move(task)] {
      const auto open = watch.lock();
      if (open && !open->ended_) task();
    };
    world_.after(last_ - world_.now(), [watch = weak_from_this(), arrive] {
      const auto open = watch.lock();
      if (open && !open->ended_ && !open->broken_) open->clock_.post(arrive);
    });
  }
  void end(const Response& response) {
    ended_ = true;
    events_.on_end(response);
  }

  Executor& world_;
  ProcessClock& clock_;
  std::shared_ptr<Duration> lag_;
  kube::StreamEvents events_;
  std::unique_ptr<kube::Stream> inner_;
  Instant last_{};
  bool broken_ = false;
  bool ended_ = false;
};

std::unique_ptr<kube::Stream> Link::stream(Request request, kube::StreamEvents events) {
  struct Open final : kube::Stream {
    explicit Open(std::shared_ptr<Watch> opened) : watch(std::move(opened)) {}
    ~Open() override { watch->close(); }
    std::shared_ptr<Watch> watch;
  };
  auto watch = std::make_shared<Watch>(world(), clock_, lag_, std::move(events));
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

void Link::lag_watches(Duration time) {
  *lag_ = is_cut() ? std::max(*lag_, time) : time;
  lag_until_ = std::max(lag_until_, world().now() + time);
  const std::weak_ptr<Exists> exists = exists_;
  world().after(time, [this, exists] {
    if (!exists.expired() && world().now() >= lag_until_) *lag_ = Duration(0);
  });
}

void Link::cut(Cut cut, Duration time) {
  cut_ = cut;
  cut_until_ = world().now() + time;
  lag_watches(time);
  const std::weak_ptr<Exists> exists = exists_;
  world().after(time, [this, exists] {
    if (!exists.expired() && cut_ == Cut::kLost && !is_cut()) break_watches();
  });
}

}  // namespace mgpu::simulation
