// Which refused pods kube-scheduler may have forgotten, and when to wake it for them.
//
// A refusal decided before a release, and not asked about again after it, may stand for good:
// kube-scheduler heard of the release first, asked at once, and has nothing left to wait for.
//
//   refused ---> waiting ---a release---> owed ---due---> sent ---woken---> out
//                   |                      |   ^            |
//                   |                      |   +---failed---+
//                   +---asked about, bound, gone, outdated--+---> out
//
// Not thread-safe; no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

class RequeueTracker {
 public:
  // Answered so; decided on a ledger that had counted `releases`. Over kRequeueListMax, who
  // waits longest is forgotten.
  void refused(const PodUid& uid, std::uint64_t releases, Instant now);
  // kube-scheduler asks about it.
  void asked(const PodUid& uid, Instant now);
  // Bound, finished or deleted.
  void gone(const PodUid& uid);
  // The ledger's count of releases as it is now.
  void observe(std::uint64_t releases, Instant now);

  // When to wake kube-scheduler; none: nobody is owed it, or a wake is under way.
  std::optional<Instant> due() const;
  // A wake is sent. Then comes woken() or failed(), once.
  void sent(Instant now);
  void woken();
  void failed(Instant retry_at);

  bool empty() const { return by_uid_.empty(); }
  std::size_t size() const { return by_uid_.size(); }

 private:
  struct Entry {
    PodUid uid;
    std::uint64_t releases;
    Instant refused_at;
    std::optional<Instant> owed_since;
  };
  using Entries = std::list<Entry>;

  void drop_front(Entries& entries);
  void drop_outdated(Entries& entries, Instant now);

  Entries waiting_;  // refused longest ago first
  Entries owed_;     // owed longest first
  std::unordered_map<PodUid, Entries::iterator> by_uid_;
  std::uint64_t releases_ = 0;
  std::optional<Instant> last_asked_;
  std::optional<Instant> sent_;
  std::optional<Instant> not_before_;
};

}  // namespace mgpu::extender
