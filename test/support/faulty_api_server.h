// The in-memory API server with faults, for what a real server does only under load, and with the
// reviews of bearer tokens and rights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "common/base/callback_guard.h"
#include "common/base/mutex.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"

namespace mgpu::test {

// What happens to one request instead of the ordinary answer.
struct Fault {
  enum class Kind {
    kAnswer,      // the request is not served; the answer is `status` and `body`
    kRefuse,      // the connection is refused: the request was never sent
    kLoseAnswer,  // the request is served, then the connection is lost
    kDelay,       // the request is served, the answer comes after `delay`
    // The request is served after `delay`, and the answer comes before that: `status` and `body`,
    // or with status 0 none, as when the connection is lost. A binding whose write etcd did not
    // confirm is an example, or a request that waits in a proxy whose client has gone.
    kServeLater,
  };
  Kind kind = Kind::kAnswer;
  int status = 503;
  std::optional<std::string> body = {};  // none: the API server's own Status
  Duration delay{0};
  std::optional<Duration> retry_after = {};
};

// As MemoryApiServer, which it is without faults. call() has neither faults nor reviews.
class FaultyApiServer final : public kube::MemoryApiServer {
 public:
  using Faults = std::function<std::optional<Fault>(const kube::Request&)>;

  using MemoryApiServer::MemoryApiServer;

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request, kube::StreamEvents events) override;

  // `faults` is called once for each send() and stream(), on the caller's thread; empty: there are
  // no faults. Safe for concurrent use.
  void set_faults(Faults faults);
  // A TokenReview of this token finds this user from now on. A SubjectAccessReview allows
  // everything to the group system:masters, and nothing to others. Safe for concurrent use.
  void set_token(const std::string& token, kube::UserInfo user);
  // Ends every open watch as a lost connection; lines not yet delivered are lost. Safe for
  // concurrent use.
  void drop_watches();

 private:
  class Watch;

  std::optional<Fault> fault_for(const kube::Request& request);
  // Serves any request but a watch. It throws nothing.
  kube::Response serve(const kube::Request& request);
  void fail(const Fault& fault, const kube::Request& request,
            const std::function<void(kube::Response)>& done);

  Mutex mutex_;
  Faults faults_ MGPU_GUARDED_BY(mutex_);
  std::map<std::string, kube::UserInfo> tokens_ MGPU_GUARDED_BY(mutex_);
  // The open watches, and some that have ended.
  std::vector<std::weak_ptr<Watch>> watches_ MGPU_GUARDED_BY(mutex_);
  CallbackGuard callbacks_;  // the last member, which is destroyed first
};

}  // namespace mgpu::test
