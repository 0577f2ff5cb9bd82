// All records of this node, in memory and on disk. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "common/base/durable_file.h"

namespace mgpu::state {

class Records {
 public:
  // Files are in `folder`, one for each record.
  explicit Records(std::string folder);

  // Reads what an earlier process left. A file that cannot be read as a record is set aside under
  // the suffix ".broken". Returns one sentence for each. Errors: the folder cannot be used.
  Result<std::vector<std::string>> load();

  // Adds or replaces in memory. Errors: limits::kRecordsMax are there already.
  Result<void> keep(const allocation::Record& record);
  // Writes it to disk. One thread at a time for each record. Errors: the disk's.
  Result<void> save(const allocation::Record& record, Durability durability) const;
  // From both.
  void remove(const allocation::AllocationId& id);

  std::optional<allocation::Record> find(const allocation::AllocationId& id) const;
  // Those with exactly these devices.
  std::vector<allocation::Record> with(const allocation::DeviceSet& devices) const;
  std::vector<allocation::Record> all() const;
  std::vector<allocation::Record> bound() const;

 private:
  std::string path_of(const allocation::AllocationId& id) const;

  const std::string folder_;
  mutable std::mutex mutex_;
  std::map<allocation::AllocationId, allocation::Record> records_;  // protected by mutex_
};

}  // namespace mgpu::state
