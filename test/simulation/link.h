// One process: its clock, and its connection to the API server. Messages take time, and faults
// happen to them as the plan says. A request that was sent may reach the server after its process
// has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/kube/memory/api_server.h"
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
};
inline constexpr int kFaults = static_cast<int>(Fault::kAnswerSlow) + 1;
std::string_view text_of(Fault fault);

// The faults of the next requests of one client, but not of its watches.
struct FaultQueue {
  std::deque<Fault> of_binds;
  std::deque<Fault> of_any;

  Fault next(const kube::Request& request);
};

class Link final : public kube::Transport {
 public:
  // All outlive it. What it sends is served by `server` also after its end.
  Link(kube::MemoryApiServer& server, FaultQueue& faults);
  ~Link() override;

  // Answers to GETs of one object come inside send() from now on: for a caller that blocks until it
  // has the answer.
  void answer_gets_at_once() { gets_at_once_ = true; }

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request,
                                       kube::StreamHandlers handlers) override;
  ProcessClock& executor() override { return clock_; }

  // Open watches end as lost connections.
  void break_watches();
  // For `time`, lines of watches arrive as much later.
  void lag_watches(Duration time);

 private:
  class Watch;
  struct Exists {};

  kube::Response answer_at_once(const kube::Request& request, Fault fault);
  Duration latency();

  Executor& world() { return server_.executor(); }

  kube::MemoryApiServer& server_;
  FaultQueue& faults_;
  ProcessClock clock_;
  bool gets_at_once_ = false;
  std::shared_ptr<Duration> lag_ = std::make_shared<Duration>(0);
  Instant lag_until_{};
  std::vector<std::weak_ptr<Watch>> watches_;
  std::shared_ptr<Exists> exists_ = std::make_shared<Exists>();
};

}  // namespace mgpu::simulation
