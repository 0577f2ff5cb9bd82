// The connection of one process to the API server. Messages take time, and faults happen to them as
// the plan says. A request that was sent may reach the server after its process has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/kube/memory/api_server.h"
#include "common/kube/transport.h"

namespace mgpu::simulation {

// What happens to one request.
enum class Fate : std::uint8_t {
  kServed,
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
inline constexpr int kFates = static_cast<int>(Fate::kAnswerSlow) + 1;
std::string_view text_of(Fate fate);

// The fates of the next requests of one client.
struct Fates {
  std::deque<Fate> of_binds;
  std::deque<Fate> of_any;

  Fate next(const kube::Request& request);
};

class Link final : public kube::Transport {
 public:
  // All outlive it. What it sends is served by `server` also after its end.
  Link(kube::MemoryApiServer& server, Fates& fates);
  ~Link() override;

  // Answers to GETs of one object come inside send() from now on: for a caller that blocks until it
  // has the answer.
  void answer_gets_at_once() { gets_at_once_ = true; }

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request,
                                       kube::StreamHandlers handlers) override;
  Executor& executor() override { return server_.executor(); }

  // Open watches end as lost connections.
  void break_watches();
  // Lines of watches arrive this much later from now on.
  void set_watch_lag(Duration lag) { *lag_ = lag; }

 private:
  class Watch;
  struct Exists {};

  void serve(const kube::Request& request, Fate fate,
             const std::function<void(kube::Response)>& done);
  Duration latency();

  kube::MemoryApiServer& server_;
  Fates& fates_;
  bool gets_at_once_ = false;
  std::shared_ptr<Duration> lag_ = std::make_shared<Duration>(0);
  std::vector<std::weak_ptr<Watch>> watches_;
  std::shared_ptr<Exists> exists_ = std::make_shared<Exists>();
};

}  // namespace mgpu::simulation
