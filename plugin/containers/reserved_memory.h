// What containers have reserved of their cards by the library in them, as the plugin compares it
// with what the driver reports.
#pragma once

#include <array>
#include <map>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/units.h"
#include "plugin/containers/share_pages.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// The readings around the last one of the driver. Any thread.
class ReservedMemory {
 public:
  using OfCards = std::map<CardUuid, MiB>;

  // Both outlive it.
  ReservedMemory(const SharePages& pages, const Records& records)
      : pages_(pages), records_(records) {}

  // Reads the pages. To be called directly before the driver is read, and directly after.
  void read();
  // The most of the last two readings. Empty: the container has no pages.
  OfCards most(const AllocationId& id) const;

 private:
  using Reading = std::map<AllocationId, OfCards>;

  const SharePages& pages_;
  const Records& records_;
  mutable Mutex mutex_;
  std::array<Reading, 2> readings_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
