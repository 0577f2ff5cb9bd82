// A temporary folder for one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace mgpu::test {

class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::temp_directory_path() / "mgpu-test-XXXXXX") {
    MGPU_CHECK(mkdtemp(path_.data()) != nullptr, "a temporary folder cannot be created");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace mgpu::test
