// All records of this node, in memory and on disk. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

inline constexpr std::size_t kRecordBytesMax = 64 * 1024;
inline constexpr std::size_t kRecordsMax = 10'000;

class Records {
 public:
  // Each record is a file in `folder`.
  explicit Records(std::string folder);

  // Reads the files of an earlier process. A file that is not a valid record is renamed with the
  // suffix ".broken"; returns one sentence for each of these. Errors: the folder cannot be used.
  Result<std::vector<std::string>> load();

  // Adds or replaces a record in memory. Errors: there are kRecordsMax already.
  Result<void> keep(const Record& record);
  // Writes a record to disk, unless it is there. Only one thread at a time may write the same
  // record. Errors: the disk fails.
  Result<void> save(const Record& record, Durability durability) const;
  // Removes a record from memory and disk.
  void remove(const AllocationId& id);

  std::optional<Record> find(const AllocationId& id) const;
  // The same, and if it is not bound, as it is on disk: another process may have bound it.
  std::optional<Record> find_bound(const AllocationId& id) const;
  // The records with exactly these devices.
  std::vector<Record> with(const DeviceSet& devices) const;
  std::vector<Record> all() const;
  std::vector<Record> bound() const;

 private:
  std::string path_of(const AllocationId& id) const;
  std::vector<Record> select(const std::function<bool(const Record&)>& condition) const;

  const std::string folder_;
  mutable Mutex mutex_;
  std::map<AllocationId, Record> records_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
