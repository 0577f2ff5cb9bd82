// A folder of pages for one test, on a file system that keeps locks of mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "plugin/share/page.h"

namespace mgpu::share {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint8_t kCard[16] = {0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

class ShareFolder {
 public:
  ShareFolder();
  ~ShareFolder();
  ShareFolder(const ShareFolder&) = delete;
  ShareFolder& operator=(const ShareFolder&) = delete;
  ShareFolder(ShareFolder&&) = delete;
  ShareFolder& operator=(ShareFolder&&) = delete;

  const std::string& path() const { return path_; }
  // Makes pages with this limit.
  void limit(std::uint64_t bytes) const;
  // Replaces bytes of a file.
  void overwrite(const std::string& file, std::int64_t offset, const std::string& bytes) const;

 private:
  std::string path_;
};

// Runs `program` in a child and returns its process id. The child ends with what it returns.
pid_t start_child(const std::function<int()>& program);
// Waits for its end: its exit status, or minus the signal that ended it.
int end_of(pid_t child);
// Runs `program` in a child until it calls the function that it gets, and leaves it there.
pid_t start_until(const std::function<void(const std::function<void()>& reached)>& program);

}  // namespace mgpu::share
