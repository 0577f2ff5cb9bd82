#include "test/simulation/disk.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/files.h"

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

// --- in the place of common/base/write_file.cc ---------------------------------------------------

namespace mgpu {

// Files are in memory: syncing them costs time and proves nothing.
Result<void> write_file(const std::string& path, std::string_view text, Durability durability) {
  simulation::Disk* disk = simulation::disk_of(path);
  if (disk == nullptr || disk->failing()) return error("cannot write " + path + ": I/O error");
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  std::ofstream(path + ".part", std::ios::binary) << text;
  std::filesystem::rename(path + ".part", path, problem);
  if (problem) return error("cannot write " + path + ": " + problem.message());
  disk->note_written(path, std::string(text), durability == Durability::kMachine);
  return {};
}

}  // namespace mgpu
