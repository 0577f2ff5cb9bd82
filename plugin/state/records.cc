#include "plugin/state/records.h"

#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "plugin/state/record_json.h"

namespace mgpu::plugin {

namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".json";
constexpr char kBroken[] = ".broken";

Result<Record> read_record(const fs::path& file) {
  const auto text = read_file(file, kRecordBytesMax, "record");
  if (!text) return text.error();
  auto record = parse_record(*text);
  if (!record) return error(file.string() + ": " + record.error().message);
  if (record->id.str() == file.stem().string()) return record;
  return error(file.string() + " contains another record, " + record->id.str());
}

// Whether the next process will read the same record from `json`.
bool reads_back(const std::string& json, const Record& record) {
  const auto read = parse_record(json);
  return read && *read == record && json.size() <= kRecordBytesMax;
}

}  // namespace

Records::Records(std::string folder) : folder_(std::move(folder)) {}

std::string Records::path_of(const AllocationId& id) const {
  return folder_ + "/" + id.str() + kSuffix;
}

Result<std::vector<std::string>> Records::load() {
  std::error_code problem;
  fs::create_directories(folder_, problem);
  fs::directory_iterator at(folder_, problem);
  if (problem) return error("cannot use " + folder_ + ": " + problem.message());
  remove_unfinished(folder_ + "/");
  std::vector<fs::path> files;
  for (; !problem && at != fs::directory_iterator(); at.increment(problem)) {
    if (at->path().extension() == kSuffix) files.push_back(at->path());
  }
  std::vector<std::string> problems;
  const MutexLock lock(mutex_);
  for (const fs::path& file : files) {
    if (auto record = read_record(file)) {
      records_[record->id] = std::move(*record);
    } else {
      problems.push_back(record.error().message);
      std::error_code ignored;
      fs::rename(file, file.string() + kBroken, ignored);
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
  // A container that restarts has the record that it had. It restarts with a full disk, too.
  const auto saved = read_file(path_of(record.id), kRecordBytesMax);
  if (saved && *saved == json) return {};
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

std::optional<Record> Records::find_bound(const AllocationId& id) const {
  if (auto found = find(id); found && found->bound()) return found;
  auto saved = read_record(path_of(id));
  return saved && saved->bound() ? std::optional(*std::move(saved)) : std::nullopt;
}

std::vector<Record> Records::select(const std::function<bool(const Record&)>& condition) const {
  std::vector<Record> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    MGPU_DEBUG_CHECK(record.id == id, "a record is kept under its own id");
    if (condition(record)) found.push_back(record);
  }
  return found;
}

std::vector<Record> Records::with(const DeviceSet& devices) const {
  return select([&](const Record& record) { return record.devices == devices; });
}

std::vector<Record> Records::all() const {
  return select([](const Record&) { return true; });
}

std::vector<Record> Records::bound() const {
  return select(&Record::bound);
}

}  // namespace mgpu::plugin
