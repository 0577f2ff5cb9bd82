// Device files, and the driver's libraries.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/gpu/driver_files.h"

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;

std::string on_node(const Trial& trial, const std::string& path) {
  return (trial.node_root == "/" ? "" : trial.node_root) + path;
}

// "nvidia0", "nvidiactl", ...: names below /dev that begin with "nvidia".
Json device_files(const Trial& trial) {
  std::set<std::string> names;
  std::error_code failed;
  fs::directory_iterator at(on_node(trial, "/dev"), failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename();
    if (name.starts_with("nvidia")) names.insert(name);
  }
  return names;
}

// "195 nvidia", "510 nvidia-uvm" of /proc/devices.
Json registered_drivers(const Trial& trial) {
  Json lines = Json::array();
  std::ifstream file(on_node(trial, "/proc/devices"));
  for (std::string line; std::getline(file, line);) {
    if (line.find("nvidia") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

bool has_uvm(const Trial& trial) {
  std::error_code failed;
  return fs::exists(on_node(trial, "/dev/nvidia-uvm"), failed);
}

// Whether every device file of these has its link in /dev/char, which systemd and some versions of
// runc look for.
Json without_char_links(const std::vector<allocation::DeviceNode>& devices) {
  Json missing = Json::array();
  for (const auto& device : devices) {
    struct stat found {};
    if (::stat(device.host_path.c_str(), &found) != 0 || !S_ISCHR(found.st_mode)) continue;
    const std::string link = "/dev/char/" + std::to_string(major(found.st_rdev)) + ":" +
                             std::to_string(minor(found.st_rdev));
    std::error_code failed;
    if (!fs::exists(link, failed)) missing.push_back(device.path);
  }
  return missing;
}

// The file of a library that the loader of this machine chooses.
std::string chosen_by_loader(const char* name) {
  void* const library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  Dl_info where{};
  void* const symbol = ::dlsym(library, "cuInit");
  const bool found = symbol != nullptr && ::dladdr(symbol, &where) != 0;
  std::error_code failed;
  const std::string path = found ? fs::canonical(where.dli_fname, failed).string() : "";
  ::dlclose(library);
  return path;
}

// The driver's version without what surrounds it: "580.95.05" of "NVML 13.580 (driver 580.95.05)".
std::string version_in(const std::string& description) {
  const std::string before = "(driver ";
  const std::size_t begin = description.find(before);
  const std::size_t end = description.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return description.substr(begin + before.size(), end - begin - before.size());
}

// Names of files of this driver in a folder: "libcuda.so.580.95.05".
std::set<std::string> files_of_driver(const fs::path& folder, const std::string& version) {
  std::set<std::string> names;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename();
    if (!version.empty() && name.ends_with(".so." + version)) names.insert(name);
  }
  return names;
}

bool mounts(const std::vector<allocation::Mount>& all, const std::string& name) {
  return std::any_of(all.begin(), all.end(), [&](const allocation::Mount& mount) {
    return fs::path(mount.container_path).filename() == name;
  });
}

}  // namespace

Result<void> check_device_files(const Trial& trial, Findings& findings) {
  const bool uvm_before = has_uvm(trial);
  findings.fact("device files at the start", device_files(trial));
  findings.fact("drivers in /proc/devices at the start", registered_drivers(trial));
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  findings.fact("device files after NVML was opened", device_files(trial));
  const auto program = run_to_end(program_on_node(trial, *node, {"vector-add"}), kProgramTimeout);
  if (!program) return error("vector-add on the node: " + program.error().message);
  findings.fact("device files after a CUDA program", device_files(trial));
  findings.fact("drivers in /proc/devices after a CUDA program", registered_drivers(trial));
  findings.expect("/dev/nvidia-uvm exists before a CUDA program has run", uvm_before,
                  "containers fail in cuInit until a CUDA program has run on the node");
  const auto edits = edits_of(trial, *node, whole_card(*node));
  findings.fact("device files without a link in /dev/char", without_char_links(edits.devices));
  return {};
}

Result<void> check_driver_libraries(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  std::set<std::string> sources;
  for (const auto& mount : node->shared.mounts) sources.insert(mount.host_path);
  findings.fact("files that containers get", sources);
  const std::string loaded = chosen_by_loader("libcuda.so.1");
  findings.fact("libcuda.so.1 of the loader", loaded);
  for (const char* const name :
       {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}) {
    findings.expect(std::string("containers get ") + name, mounts(node->shared.mounts, name),
                    "our discovery did not find it: CUDA cannot run in containers");
  }
  const std::string version = version_in(node->driver);
  std::set<fs::path> folders;
  for (const std::string& source : sources) {
    folders.insert(fs::path(on_node(trial, source)).parent_path());
  }
  if (!loaded.empty()) folders.insert(fs::path(loaded).parent_path());
  Json left_out = Json::array();
  for (const fs::path& folder : folders) {
    for (const std::string& name : files_of_driver(folder, version)) {
      const auto is_it = [&](const std::string& source) { return source.ends_with("/" + name); };
      if (std::none_of(sources.begin(), sources.end(), is_it)) left_out.push_back(name);
    }
  }
  findings.fact("files of this driver that containers do not get", left_out);
  return {};
}

Result<void> check_symbols(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto program = run_to_end(program_on_node(trial, *node, {"symbols"}), kProgramTimeout);
  if (!program) return program.error();
  findings.fact("CUDA version", number_of(*program, "cuda_version"));
  findings.fact("answers with an address of dlsym", number_of(*program, "same"));
  findings.fact("answers with another address", number_of(*program, "other"));
  findings.fact("no answer", number_of(*program, "absent"));
  findings.fact("names with another address", program->value("other_names"));
  return {};
}

}  // namespace mgpu::gpu_trial
