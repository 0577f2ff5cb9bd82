#include "test/simulation/disk.h"

#include <filesystem>
#include <fstream>
#include <utility>

// The real functions, with write_file() under another name.
#define write_file write_real_file
#include "common/base/files.cc"  // NOLINT(bugprone-suspicious-include)
#undef write_file

namespace mgpu::simulation {
namespace {

namespace fs = std::filesystem;

std::map<std::string, Disk*>& disks() {
  static std::map<std::string, Disk*> all;
  return all;
}

}  // namespace

Disk::Disk(std::string folder) : folder_(std::move(folder)) {
  disks()[folder_] = this;
}

Disk::~Disk() {
  disks().erase(folder_);
}

void Disk::note_written(const std::string& path, const std::string& text, bool synced) {
  auto& content = synced_[path];
  if (synced) content = text;
}

void Disk::lose_power() {
  for (const auto& [path, text] : synced_) {
    std::error_code ignored;
    fs::remove(path, ignored);
    if (text) std::ofstream(path, std::ios::binary) << *text;
  }
}

Disk* disk_of(const std::string& path) {
  const auto after = disks().upper_bound(path);
  if (after == disks().begin()) return nullptr;
  const auto& [folder, disk] = *std::prev(after);
  return path.starts_with(folder) ? disk : nullptr;
}

}  // namespace mgpu::simulation

namespace mgpu {

Result<void> write_file(const std::string& path, std::string_view text, Durability durability);
Result<void> write_file(const std::string& path, std::string_view text, Durability durability) {
  simulation::Disk* disk = simulation::disk_of(path);
  if (disk != nullptr && disk->failing()) return error("cannot write " + path + ": I/O error");
  // The files are in memory: syncing them costs time and proves nothing.
  auto written = write_real_file(path, text, Durability::kProcess);
  if (written && disk != nullptr) {
    disk->note_written(path, std::string(text), durability == Durability::kMachine);
  }
  return written;
}

}  // namespace mgpu
