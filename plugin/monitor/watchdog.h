// Finds containers that use more memory than they hold. A pure state machine with one step for each
// sample:
//
//   Within --above limit and slack--> Suspected --again--> Over (reported once) --below--> Within
#pragma once

#include <map>
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
  // A container is over its limit if it exceeds it by more than 64 MiB and 2 % in two consecutive
  // samples. Returns the containers that are over since this sample.
  std::vector<Overuse> step(const std::vector<ContainerUse>& use);
  // Returns all containers that are over.
  std::vector<Overuse> over() const;

 private:
  struct Entry {
    int samples = 0;
    Overuse overuse;
  };
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> entries_;
};

}  // namespace mgpu::plugin
