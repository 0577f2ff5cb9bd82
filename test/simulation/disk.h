// The disks of the simulated nodes. Files are real, in a folder in memory; write_file() of
// common/base/files.h is replaced at link time, so that writes can fail, and a loss of power undoes
// what was not synced.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace mgpu::simulation {

class Disk {
 public:
  // The disk of the files below `folder`, which exists. One Disk for a folder.
  explicit Disk(std::string folder);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const std::string& folder() const { return folder_; }
  void set_failing(bool failing) { failing_ = failing; }
  bool failing() const { return failing_; }
  // Each file gets its last synced content; files that were never synced do not exist.
  void lose_power();
  // For the replaced write_file().
  void note_written(const std::string& path, const std::string& text, bool synced);

 private:
  const std::string folder_;
  bool failing_ = false;
  std::map<std::string, std::optional<std::string>> synced_;  // by path
};

// The disk that has the file, or null. A name that continues that of another folder does so with a
// character after "/", such as "~".
Disk* disk_of(const std::string& path);

}  // namespace mgpu::simulation
