#include "plugin/state/records.h"

#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "plugin/state/limits.h"
#include "plugin/state/record_json.h"

namespace mgpu::plugin {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kBroken = ".broken";

Result<std::vector<fs::path>> record_files(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  fs::directory_iterator entries(folder, problem);
  if (problem) return error("cannot use " + folder + ": " + problem.message());
  std::vector<fs::path> files;
  while (!problem && entries != fs::directory_iterator()) {
    if (entries->path().extension() == kSuffix) files.push_back(entries->path());
    entries.increment(problem);
  }
  return files;
}

Result<Record> read_record(const fs::path& file) {
  const auto text = read_file(file, kRecordBytesMax, "record");
  if (!text) return text.error();
  auto record = parse_record(*text);
  if (!record) return error(file.string() + ": " + record.error().message);
  if (record->id.str() == file.stem().string()) return record;
  return error(file.string() + " holds another record, " + record->id.str());
}

void set_aside(const fs::path& file) {
  std::error_code ignored;
  fs::rename(file, file.string() + std::string(kBroken), ignored);
}

// Whether the next process will read this record where `json` was written.
bool reads_back(const std::string& json, const Record& record) {
  const auto read = parse_record(json);
  return read && *read == record && json.size() <= kRecordBytesMax;
}

}  // namespace

Records::Records(std::string folder) : folder_(std::move(folder)) {}

std::string Records::path_of(const AllocationId& id) const {
  return folder_ + "/" + id.str() + std::string(kSuffix);
}

Result<std::vector<std::string>> Records::load() {
  const auto files = record_files(folder_);
  if (!files) return files.error();
  std::vector<std::string> problems;
  const MutexLock lock(mutex_);
  for (const fs::path& file : *files) {
    auto record = read_record(file);
    if (record) {
      records_[record->id] = std::move(*record);
    } else {
      problems.push_back(record.error().message);
      set_aside(file);
    }
  }
  return problems;
}

Result<void> Records::keep(const Record& record) {
  const MutexLock lock(mutex_);
  if (records_.size() >= kRecordsMax && !records_.contains(record.id)) {
    return error("there are " + std::to_string(kRecordsMax) + " allocations already");
  }
  records_[record.id] = record;
  return {};
}

Result<void> Records::save(const Record& record, Durability durability) const {
  const std::string json = record_json(record);
  MGPU_DEBUG_CHECK(reads_back(json, record), "a record is read back as it was written");
  return write_file(path_of(record.id), json, durability);
}

void Records::remove(const AllocationId& id) {
  {
    const MutexLock lock(mutex_);
    records_.erase(id);
  }
  std::error_code ignored;
  fs::remove(path_of(id), ignored);
}

std::optional<Record> Records::find(const AllocationId& id) const {
  const MutexLock lock(mutex_);
  const auto at = records_.find(id);
  return at == records_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<Record> Records::with(const DeviceSet& devices) const {
  std::vector<Record> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    if (record.devices == devices) found.push_back(record);
  }
  return found;
}

std::vector<Record> Records::all() const {
  std::vector<Record> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) found.push_back(record);
  return found;
}

std::vector<Record> Records::bound() const {
  std::vector<Record> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    if (record.bound()) found.push_back(record);
  }
  return found;
}

}  // namespace mgpu::plugin
