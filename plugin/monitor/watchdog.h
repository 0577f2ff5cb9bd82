// Finds containers that exceed what they hold. Pure state machines with one step for each sample:
//
//   Within --above limit and slack--> Suspected --again--> Over (reported once) --below--> Within
#pragma once

#include <array>
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
  // `context` is what a process takes of a card before it allocates anything. The driver counts it
  // as memory of the process, and no program can do without it.
  explicit Watchdog(MiB context = MiB()) : context_(context) {}

  // A container is over its limit if it exceeds it by more than 64 MiB, 2 % and the contexts of
  // its first four processes in two consecutive samples. Returns the containers that are over since
  // this sample.
  std::vector<Overuse> step(const std::vector<ContainerUse>& use);
  // Returns all containers that are over.
  std::vector<Overuse> over() const;

 private:
  struct Entry {
    int samples = 0;
    Overuse overuse;
  };

  bool exceeds(const ContainerUse& use) const;

  const MiB context_;
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> entries_;
};

// Measures what a container uses of a card beyond what the library in it has counted: overhead of
// the driver that no call shows, and programs that do not use the library. One thread.
class UncountedWatch {
 public:
  // Sets ContainerUse::uncounted to the least excess of this and the last two samples, because
  // programs allocate and free between the readings of the driver and of the pages. Without a
  // `fresh` reading of the driver it stays. Returns the containers for which it is above 2 % of
  // their memory and 64 MiB for each of up to eight processes now and was not in the last sample.
  std::vector<ContainerUse> step(std::vector<ContainerUse>& use, bool fresh);

 private:
  struct Entry {
    std::array<MiB, 3> excess{};  // of the last samples, the latest first
    bool reported = false;
  };
  std::map<std::tuple<PodUid, std::string, CardUuid>, Entry> entries_;
};

// Finds containers with a part of a card that run processes without MPS, whose compute has no
// limit, nor their memory if MPS limits that. One thread.
class BypassWatch {
 public:
  // Returns the containers that have such a process in this and the last sample, and had none
  // before: the driver may list a new client of MPS as such a moment later.
  std::vector<ContainerUse> step(const std::vector<ContainerUse>& use);

 private:
  std::map<std::tuple<PodUid, std::string, CardUuid>, int> samples_;  // in a row
};

}  // namespace mgpu::plugin
