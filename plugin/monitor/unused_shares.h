// Finds shares of cards on which no process of the container has been for long. Pure. A process
// that holds a card without computing counts as use.
//
//   Watched --no process of the container on the card for `after`--> Unused --a process--> Watched
//
// A share is watched from the moment at which its container is first seen running, since it
// is not known whether it was used before. A container that is started again is a new one.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/monitor/drift.h"

namespace mgpu::plugin {

// One thread.
class UnusedShares {
 public:
  explicit UnusedShares(Duration after) : after_(after) {}

  // The shares that are unused now. REQUIRES: facts.processes is known.
  //
  // A process that ended before its container could be read may have been one of any container on
  // its card. It counts as use of the shares that are not yet reported. A share whose card was not
  // measured completely for a minute is watched anew.
  std::vector<Drift> step(const DriftFacts& facts);

 private:
  struct Entry {
    std::string container_id;
    Instant used{};      // by a process, or the beginning of the watch
    Instant measured{};  // all processes of the card were known then
  };
  using Key = std::tuple<PodUid, std::string, CardUuid>;

  void watch(const Record& record, const CardGrant& grant, const kube::ContainerStatus& status,
             const DriftFacts& facts);
  bool is_unused(const Entry& entry) const { return entry.measured - entry.used >= after_; }
  std::string message(const Record& record, const CardGrant& grant) const;

  const Duration after_;
  std::map<Key, Entry> entries_;
};

}  // namespace mgpu::plugin
