// A shell script in place of kubectl, first in $PATH while the object lives.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/support/scratch_folder.h"

namespace mgpu::test {

class FakeKubectl {
 public:
  // `script` may write files into $FAKE_KUBECTL.
  explicit FakeKubectl(const std::string& script) : path_(std::getenv("PATH")) {
    std::ofstream(folder_.path("kubectl")) << "#!/bin/bash\n" << script << "\n";
    std::filesystem::permissions(folder_.path("kubectl"), std::filesystem::perms::owner_all);
    ::setenv("FAKE_KUBECTL", folder_.path().c_str(), 1);
    ::setenv("PATH", (folder_.path() + ":/usr/bin:/bin").c_str(), 1);
  }
  ~FakeKubectl() {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("FAKE_KUBECTL");
  }
  FakeKubectl(const FakeKubectl&) = delete;
  FakeKubectl& operator=(const FakeKubectl&) = delete;

  // Leaves a $PATH without any kubectl.
  void remove() const {
    std::filesystem::remove(folder_.path("kubectl"));
    ::setenv("PATH", folder_.path().c_str(), 1);
  }
  std::string file(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.path(name)).rdbuf();
    return text.str();
  }

 private:
  ScratchFolder folder_;
  const std::string path_;
};

}  // namespace mgpu::test
