// A node with the driver of test/gpu/nvml/nvml.cc, whose files are in a temporary folder. At first
// it has no other files of the driver.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/cards/nvml/nvml_source.h"

namespace mgpu::plugin {

// The path of a program or library that is built with the tests.
inline std::string beside_the_test(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

class FakeDriver {
 public:
  FakeDriver() : folder_(std::filesystem::temp_directory_path() / unique_name()) {
    std::filesystem::create_directories(root() + "/dev");
    ::setenv("MGPU_FAKE_NVML", scenario().c_str(), 1);
    set_scenario("");
  }
  ~FakeDriver() { std::filesystem::remove_all(folder_); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  std::string root() const { return folder_ / "root"; }

  // See test/gpu/nvml/nvml.cc for the text of both.
  void set_scenario(const std::string& text) const { replace(scenario(), text); }
  void send_events(const std::string& text) const { replace(scenario() + ".events", text); }
  // "init shutdown init"
  std::string log() const {
    std::ifstream file(scenario() + ".log");
    std::string all;
    for (std::string line; std::getline(file, line);) all += (all.empty() ? "" : " ") + line;
    return all;
  }
  // The compute mode that was set last, or "" if none was.
  std::string mode(const std::string& uuid) const {
    std::ifstream file(scenario() + ".mode");
    std::string last;
    for (std::string card, mode; file >> card >> mode;) {
      if (card == uuid) last = mode;
    }
    return last;
  }
  // What another program does, or a reload of the driver.
  void set_mode(const std::string& uuid, int mode) const {
    std::ofstream(scenario() + ".mode", std::ios::app) << uuid << " " << mode << "\n";
  }
  // "<uuid> <cgroup> <soft> <hard>" for each memory limit that was set.
  std::vector<std::string> limits() const {
    std::ifstream file(scenario() + ".limits");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  void add_file(const std::string& path, const std::string& text = "") const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }

  // What a container needs to run CUDA.
  void add_cuda() const {
    for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/usr/lib64/libcuda.so.1"}) {
      add_file(path);
    }
  }

  NvmlOptions options(const std::string& library = "fake_nvml.so") const {
    NvmlOptions options;
    options.libraries = {beside_the_test(library)};
    options.node_root = root();
    options.modprobe.clear();
    return options;
  }

 private:
  static std::string unique_name() {
    static int count = 0;
    return "fake_driver." + std::to_string(::getpid()) + "." + std::to_string(++count);
  }
  std::string scenario() const { return folder_ / "scenario"; }

  static void replace(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }

  const std::filesystem::path folder_;
};

}  // namespace mgpu::plugin
