// One process: its clock, and its connection to the API server. Messages take time, and faults
// happen to them as the plan says. A request that was sent may reach the server after its process
// has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "common/kube/transport.h"
#include "test/simulation/process_clock.h"

namespace mgpu::simulation {

// What happens to one request.
enum class Fault : std::uint8_t {
  kNone,
  kRefused,           // never sent
  kRequestLost,       // sent, and not served
  kAnswerLost,        // served
  kServedLate,        // no answer; served seconds later
  kTooManyRequests,   // 429, not served
  kUnavailable,       // 503 by the API server, not served
  kUnavailableProxy,  // 503 without a Status by a proxy, served
  kErrorNotServed,    // 500, not served
  kErrorServed,       // 500, served
  kConflictOfEtcd,    // 409 though nothing is in conflict; served a moment later
  kAnswerSlow,        // served; the answer takes seconds
  kForbidden,         // 403, not served; in no plan, but for refusal_of()
};
inline constexpr int kFaults = static_cast<int>(Fault::kAnswerSlow) + 1;
std::string_view text_of(Fault fault);

// What the extender may never do where objects are refused (Setting): change anything in namespace
// "a", and touch some pods, because of a policy (403) or of a webhook that does not work (500).
std::optional<Fault> refusal_of(const kube::Request& request);

// The faults of the next requests of one client, but not of its watches.
struct FaultQueue {
  std::deque<Fault> of_binds;
  std::deque<Fault> of_any;
  bool refuses_objects = false;  // as refusal_of() says

  Fault next(const kube::Request& request);
};

class Link final : public kube::Transport {
 public:
  // Called when `server` has served a request, also after the end of the process.
  using OnServed = std::function<void(const kube::Request&, const kube::Response&)>;

  // All outlive it, also what `on_served` uses. What it sends is served by `server` also after its
  // end.
  Link(kube::MemoryApiServer& server, FaultQueue& faults, OnServed on_served = {});
  ~Link() override;

  // Answers to GETs of one object come inside send() from now on: for a caller that blocks until it
  // has the answer.
  void answer_gets_at_once() { gets_at_once_ = true; }

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request, kube::StreamEvents events) override;
  ProcessClock& executor() override { return clock_; }

  // Open watches end as lost connections.
  void break_watches();
  // For `time`, lines of watches arrive as much later.
  void lag_watches(Duration time);
  bool watches_lag() const { return *lag_ > Duration(0); }
  // For `time`, nothing that is sent reaches the server: it is lost, or it waits in an API server
  // that is stopped, and is served afterwards. Its sender gets no answer before that.
  enum class Cut : std::uint8_t { kLost, kServedAfterwards };
  void cut(Cut cut, Duration time);
  // `stop` is called when the next bind is sent. The bind reaches the server later by the time that
  // it returns.
  void before_next_bind(std::function<Duration()> stop) { before_next_bind_ = std::move(stop); }

 private:
  class Watch;
  struct Exists {};

  kube::Response answer_at_once(const kube::Request& request, Fault fault);
  Duration latency();
  Duration delay_of(const kube::Request& request);
  bool is_cut() { return cut_until_ > world().now(); }

  Executor& world() { return server_.executor(); }

  kube::MemoryApiServer& server_;
  FaultQueue& faults_;
  const OnServed on_served_;
  ProcessClock clock_;
  bool gets_at_once_ = false;
  std::shared_ptr<Duration> lag_ = std::make_shared<Duration>(0);
  Instant lag_until_{};
  Cut cut_ = Cut::kLost;
  Instant cut_until_{};
  std::function<Duration()> before_next_bind_;
  std::vector<std::weak_ptr<Watch>> watches_;
  std::shared_ptr<Exists> exists_ = std::make_shared<Exists>();
};

}  // namespace mgpu::simulation
