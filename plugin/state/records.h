// All records of this node, in memory and on disk. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/state/limits.h"

namespace mgpu::plugin {

class Records {
 public:
  // Files are in `folder`, one for each record.
  explicit Records(std::string folder);

  // Reads what an earlier process left. A file that cannot be read as a record is set aside under
  // the suffix ".broken". Returns one sentence for each. Errors: the folder cannot be used.
  Result<std::vector<std::string>> load();

  // Adds or replaces in memory. Errors: kRecordsMax are there already.
  Result<void> keep(const Record& record);
  // Writes it to disk. One thread at a time for each record. Errors: the disk's.
  Result<void> save(const Record& record, Durability durability) const;
  // From both.
  void remove(const AllocationId& id);

  std::optional<Record> find(const AllocationId& id) const;
  // Those with exactly these devices.
  std::vector<Record> with(const DeviceSet& devices) const;
  std::vector<Record> all() const;
  std::vector<Record> bound() const;

 private:
  std::string path_of(const AllocationId& id) const;

  const std::string folder_;
  mutable Mutex mutex_;
  std::map<AllocationId, Record> records_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
