#include "plugin/cards/driver_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

// CUDA, NVML, OpenCL and the libraries that they load. Graphics libraries are left out.
constexpr std::array<std::string_view, 9> kLibraries = {"libcuda.so",
                                                        "libcudadebugger.so",
                                                        "libnvidia-ml.so",
                                                        "libnvidia-nvvm.so",
                                                        "libnvidia-ptxjitcompiler.so",
                                                        "libnvidia-gpucomp.so",
                                                        "libnvidia-opencl.so",
                                                        "libnvidia-cfg.so",
                                                        "libnvidia-allocator.so"};

#if defined(__aarch64__)
constexpr std::string_view kDebianFolder = "/usr/lib/aarch64-linux-gnu";
#else
constexpr std::string_view kDebianFolder = "/usr/lib/x86_64-linux-gnu";
#endif
constexpr std::string_view kRedHatFolder = "/usr/lib64";

// Where packages, NVIDIA's own installer and container-optimised systems install drivers.
constexpr std::array<std::string_view, 5> kFolders = {kDebianFolder, kRedHatFolder, "/usr/lib",
                                                      "/lib64", "/usr/local/nvidia/lib64"};

std::string joined(const std::string& root, std::string_view path) {
  return (root == "/" ? "" : root) + std::string(path);
}

// "libcuda.so", "libcuda.so.1", "libcuda.so.580.95.05"
bool is_driver_library(std::string_view name) {
  return std::ranges::any_of(kLibraries, [&](std::string_view library) {
    return name == library || (name.starts_with(library) && name[library.size()] == '.');
  });
}

// The file that a link stands for. Links are followed within the folder only, because the runtime
// may resolve other links to a different file.
std::optional<std::string> resolve(const fs::path& folder, const std::string& name) {
  fs::path at = name;
  for (int links = 0; links < 4; ++links) {
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(folder / at, failed);
    if (fs::is_regular_file(status)) return at.string();
    if (!fs::is_symlink(status)) return std::nullopt;
    at = fs::read_symlink(folder / at, failed).filename();
  }
  return std::nullopt;
}

}  // namespace

std::vector<DeviceNode> control_nodes(const std::string& node_root) {
  std::vector<DeviceNode> nodes;
  for (const char* const path : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    std::error_code failed;
    if (fs::exists(joined(node_root, path), failed)) nodes.push_back({path, path});
  }
  return nodes;
}

std::vector<Mount> driver_libraries(const std::string& node_root, const std::string& driver_root) {
  std::vector<Mount> mounts;
  for (const std::string_view source : kFolders) {
    const std::string on_node = joined(driver_root, source);
    const fs::path folder = joined(node_root, on_node);
    std::set<std::string> names;
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (is_driver_library(name) && names.size() < kDriverFilesMax) names.insert(name);
    }
    for (const std::string& name : names) {
      const auto file = resolve(folder, name);
      if (!file) continue;
      for (const std::string_view target : {kDebianFolder, kRedHatFolder}) {
        mounts.push_back({on_node + "/" + *file, std::string(target) + "/" + name, true});
      }
    }
    // The first folder with a driver has all of its libraries. Others may have an older driver.
    if (!mounts.empty()) break;
  }
  return mounts;
}

}  // namespace mgpu::plugin
