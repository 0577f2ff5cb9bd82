// Shares that are kept on each card of each node for pods whose node is not known. Part of the
// ledger; used under its lock.
//
// After a start, a late binding of an unsettled pod (bind/start_sequence.h) may take up to that
// share of any card. So may the pending members of a group of which an earlier process has bound a
// part: what filter has answered for them is not known any more. What is kept for such groups is
// free to all of them, and each member's part ends with the next answer for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/placement/cluster.h"

namespace mgpu::extender {

class KeptEverywhere {
 public:
  // Until `until`, `most` is not available on any card, except to the pod itself. With a group it
  // is so once the group has begun, and except to all groups that have. Those beyond
  // kNominationsMax are not kept for groups.
  void keep(const PodUid& uid, const Share& most, Instant until, const std::string& group);
  // A member of the group is bound.
  void begin(const std::string& group);
  void end(const PodUid& uid);
  // filter has answered or refused the pod: ends what is kept for it as a member of a group.
  void end_for_group(const PodUid& uid);
  // Ends those whose `until` is not after `now`.
  void expire(Instant now);

  bool any() const { return !(sum_ + begun_sum_).zero(); }
  // What is not available to this pod of the group, which may be empty. Nothing without a uid.
  Share kept_from(const PodUid& uid, const std::string& group) const;
  // Returns how often something was available again.
  std::uint64_t releases() const { return releases_; }

 private:
  struct Kept {
    Share most;
    Instant until{};
    std::string group{};
  };
  struct Group {
    Share sum;
    std::size_t pods = 0;
    bool begun = false;  // it is part of begun_sum_
  };

  // Whether the sums equal those of kept_. For checks.
  bool is_consistent() const;
  void check() const;

  std::unordered_map<PodUid, Kept> kept_;
  std::map<std::string, Group> groups_;
  Share sum_;  // without groups
  Share begun_sum_;
  Instant first_end_ = Instant::max();  // nothing ends before it
  std::uint64_t releases_ = 0;
};

}  // namespace mgpu::extender
