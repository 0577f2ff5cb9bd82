// Device files and the driver's libraries.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/machine.h"
#include "common/base/files.h"

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;

// Lines of /proc/devices such as "195 nvidia" and "510 nvidia-uvm".
Json registered_drivers(const Trial& trial) {
  Json lines = Json::array();
  std::ifstream file(path_on_node(trial, "/proc/devices"));
  for (std::string line; std::getline(file, line);) {
    if (line.find("nvidia") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

// The device files without a link in /dev/char, which systemd and some versions of runc need.
Json without_char_links(const Trial& trial, const std::vector<plugin::DeviceNode>& devices) {
  Json missing = Json::array();
  for (const auto& device : devices) {
    struct stat found {};
    if (::stat(device.host_path.c_str(), &found) != 0 || !S_ISCHR(found.st_mode)) continue;
    const std::string link = "/dev/char/" + std::to_string(major(found.st_rdev)) + ":" +
                             std::to_string(minor(found.st_rdev));
    std::error_code failed;
    if (!fs::exists(path_on_node(trial, link), failed)) missing.push_back(device.path);
  }
  return missing;
}

// The file of libcuda.so.1 that the loader of this machine chooses; empty if there is none.
std::string libcuda_of_loader() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  Dl_info where{};
  void* const symbol = ::dlsym(library, "cuInit");
  const bool found = symbol != nullptr && ::dladdr(symbol, &where) != 0;
  std::error_code failed;
  const std::string path = found ? fs::canonical(where.dli_fname, failed).string() : "";
  ::dlclose(library);
  return path;
}

// Names of the driver's files in a folder, such as "libcuda.so.580.95.05".
std::set<std::string> files_of_driver(const fs::path& folder, const std::string& version) {
  std::set<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) {
    return version.empty() || !name.ends_with(".so." + version);
  });
  return names;
}

bool mounts(const std::vector<plugin::Mount>& all, const std::string& name) {
  return std::any_of(all.begin(), all.end(), [&](const plugin::Mount& mount) {
    return fs::path(mount.container_path).filename() == name;
  });
}

// Names of the driver's files that containers do not get. It searches the folders of the files that
// containers get, and the folder of the loader's libcuda.
Json files_left_out(const Trial& trial, const NodeUnderTest& node, const std::string& libcuda) {
  std::set<fs::path> folders;
  std::set<std::string> given;
  for (const auto& mount : node.shared.mounts) {
    folders.insert(fs::path(path_on_node(trial, mount.host_path)).parent_path());
    given.insert(fs::path(mount.host_path).filename());
  }
  if (!libcuda.empty()) folders.insert(fs::path(libcuda).parent_path());
  std::set<std::string> left_out;
  for (const fs::path& folder : folders) {
    for (const std::string& name : files_of_driver(folder, node.driver_version)) {
      if (!given.contains(name)) left_out.insert(name);
    }
  }
  return left_out;
}

}  // namespace

Result<void> check_device_files(const Trial& trial, Findings& findings) {
  // inspect_machine has opened NVML before, and has recorded the device files before that.
  const Json before = device_files(trial);
  findings.fact("device files after NVML was opened", before);
  findings.fact("drivers in /proc/devices after NVML was opened", registered_drivers(trial));
  // As the device plugin reads the cards of a node: it loads the kernel module, and makes links.
  auto options = nvml_options(trial);
  options.prepare_node = true;
  if (const auto read = plugin::nvml_source(options)->read(); !read) return read.error();
  findings.fact("device files after the device plugin has read the cards", device_files(trial));
  const bool has_uvm = fs::exists(path_on_node(trial, "/dev/nvidia-uvm"));
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const auto edits = edits_of(trial, *node, whole_card(*node));
  const Json unlinked = without_char_links(trial, edits.devices);
  const auto program = run_to_end(program_on_node(trial, *node, {"vector-add"}), kProgramTimeout);
  if (!program) return error("vector-add on the node: " + program.error().message);
  findings.fact("device files after a CUDA program", device_files(trial));
  findings.fact("drivers in /proc/devices after a CUDA program", registered_drivers(trial));
  findings.expect("/dev/nvidia-uvm exists once the device plugin has read the cards", has_uvm,
                  "containers fail in cuInit until a CUDA program has run on the node");
  findings.fact("device files without a link in /dev/char", unlinked);
  findings.expect(
      "each device file has a link in /dev/char once the device plugin has read the cards",
      unlinked.empty(),
      "systemd and some versions of runc take them from containers: " + unlinked.dump());
  return {};
}

Result<void> check_driver_libraries(const Trial& trial, const NodeUnderTest& node,
                                    Findings& findings) {
  std::set<std::string> sources;
  for (const auto& mount : node.shared.mounts) sources.insert(mount.host_path);
  findings.fact("files that containers get", sources);
  const std::string libcuda = libcuda_of_loader();
  findings.fact("libcuda.so.1 that the loader of this machine chooses", libcuda);
  for (const char* const name :
       {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}) {
    findings.expect(std::string("containers get ") + name, mounts(node.shared.mounts, name),
                    "the device plugin did not find it: CUDA cannot run in containers");
  }
  findings.fact("files of this driver that containers do not get",
                files_left_out(trial, node, libcuda));
  return {};
}

}  // namespace mgpu::gpu_trial
