// Decides which drifts are reported. Pure, a state machine for each drift:
//
//   Seen --again, kDriftConfirm later--> Found (reported once) --not seen twice,
//     |                                                          kDriftConfirm later--> (ended)
//     +--not seen--> (forgotten)
//
// Where the processes are not known in a step, what depends on them stays as it is while its pod
// exists.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plugin/monitor/drift.h"

namespace mgpu::plugin {

// One thread.
class DriftWatch {
 public:
  explicit DriftWatch(Contract contract) : contract_(std::move(contract)) {}

  struct Changes {
    std::vector<Drift> begun;  // at most kDriftsReportedPerStep; the others in the next steps
    std::vector<Drift> ended;
  };
  Changes step(const DriftFacts& facts);

  // The drifts that were reported and have not ended: kDriftsMax at most.
  std::vector<Drift> current() const;
  // The number of drifts that were left out, because there were kDriftsMax: of each kind by the
  // last step that could look for it.
  std::size_t left_out() const;

 private:
  struct Entry {
    Drift drift;
    Instant first{};  // when it was seen
    Instant last{};
    int seen = 1;
    int missed = 0;  // steps in a row
    bool reported = false;
  };
  using Key = std::tuple<DriftKind, PodUid, std::string, CardUuid>;

  std::vector<Drift> find(DriftKind kind, const DriftFacts& facts) const;
  void update(DriftKind kind, const DriftFacts& facts, Changes& changes);
  void end_with_pods(DriftKind kind, const DriftFacts& facts, Changes& changes);
  void report(Instant now, Changes& changes);

  const Contract contract_;
  std::map<Key, Entry> entries_;
  std::map<DriftKind, std::size_t> left_out_;
};

}  // namespace mgpu::plugin
