// Compares what containers use with what they hold. Pure state machine: one step per sample.
//
//   Within --over limit + slack--> Suspect --again--> Over (told once) --within--> Within
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/monitor/join.h"

namespace mgpu::plugin {

struct Overuse {
  Owner owner;
  CardGrant grant;
  MiB used;
};

// One thread.
class Watchdog {
 public:
  // More than its memory plus max(64 MiB, 2 %), in two samples running. Returns those that are over
  // since this sample.
  std::vector<Overuse> step(const std::vector<ContainerUse>& use);
  // Over now.
  std::vector<Overuse> over() const;

 private:
  struct Entry {
    int samples = 0;
    Overuse overuse;
  };
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> entries_;
};

}  // namespace mgpu::plugin
