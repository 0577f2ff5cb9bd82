#include "plugin/cards/driver/uvm_module.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/process.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

constexpr std::string_view kModule = "nvidia-uvm";
// Minors of nvidia-uvm and nvidia-uvm-tools (NVIDIA/nvidia-modprobe nvidia-modprobe-utils.h).
constexpr std::array<std::pair<std::string_view, unsigned>, 2> kMinors = {
    {{"/dev/nvidia-uvm", 0}, {"/dev/nvidia-uvm-tools", 1}}};
constexpr std::string_view kParameters = "/proc/driver/nvidia/params";
constexpr unsigned kPermissions = 0777;
// The last one is NixOS's.
constexpr std::array<std::string_view, 7> kSystemFolders = {
    "/usr/local/sbin",           "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
    "/run/current-system/sw/bin"};

Result<void> run_on_node(const std::string& node_root, const std::string& name,
                         std::vector<std::string> arguments) {
  for (const std::string_view folder : kSystemFolders) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (!file_on_node(node_root, path)) continue;
    const auto output = run_with_input({.path = path,
                                        .arguments = std::move(arguments),
                                        // They name libraries of the image.
                                        .removed_prefix = "LD_",
                                        .root = node_root == "/" ? "" : node_root},
                                       "", kLoadUvmBytesMax, kLoadUvmTimeout);
    if (output) return {};
    return error(fmt::format("{}: {}", name, output.error().message));
  }
  return error(fmt::format("the node has no program {}", name));
}

// How device files are made (NVIDIA/nvidia-modprobe nvidia-modprobe-utils.c:
// init_device_file_parameters). The administrator sets it with parameters of the kernel module.
struct DeviceFiles {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0666;
  bool permitted = true;
};

DeviceFiles device_files_of(const std::string& node_root) {
  DeviceFiles files;
  std::ifstream parameters(joined(node_root, kParameters));
  std::string line;
  for (std::size_t bytes = 0; bytes < kDriverParametersBytesMax && std::getline(parameters, line);
       bytes += line.size()) {
    std::istringstream words(line);
    std::string name;
    unsigned value = 0;
    if (!(words >> name >> value)) continue;
    if (name == "DeviceFileUID:") files.owner = value;
    if (name == "DeviceFileGID:") files.group = value;
    if (name == "DeviceFileMode:") files.mode = value & kPermissions;
    if (name == "ModifyDeviceFiles:") files.permitted = value != 0;
  }
  return files;
}

Result<void> make_device(const std::string& node_root, std::string_view device, dev_t number) {
  const std::string path = joined(node_root, device);
  struct stat found {};
  const bool exists = ::lstat(path.c_str(), &found) == 0;
  if (exists && S_ISCHR(found.st_mode) && found.st_rdev == number) return {};
  const DeviceFiles files = device_files_of(node_root);
  if (!files.permitted) {
    return error(fmt::format("{} is {}, and is not created because ModifyDeviceFiles of {} is 0",
                             device, exists ? "of another module" : "missing", kParameters));
  }
  if (exists) ::unlink(path.c_str());
  if (::mknod(path.c_str(), S_IFCHR | files.mode, number) == 0 &&
      ::chown(path.c_str(), files.owner, files.group) == 0 &&
      ::chmod(path.c_str(), files.mode) == 0) {
    return {};
  }
  return error(fmt::format("cannot create {}: {}", path, std::strerror(errno)));
}

}  // namespace

Result<void> load_uvm(const DriverPlace& place, const std::string& modprobe) {
  const auto by_nvidia = run_on_node(place.node_root, modprobe, {"-u", "-c=0"});
  if (has_uvm(place)) return {};
  std::string problem = by_nvidia ? modprobe + " made no device" : by_nvidia.error().message;
  if (!uvm_major(place.node_root)) {
    const auto loaded = run_on_node(place.node_root, "modprobe", {std::string(kModule)});
    if (!loaded) problem += "; " + loaded.error().message;
  }
  const auto number = uvm_major(place.node_root);
  if (!number) return error(problem);
  for (const auto& [path, minor] : kMinors) {
    const auto made = make_device(place.node_root, path, makedev(*number, minor));
    if (!made) return made;
  }
  return {};
}

}  // namespace mgpu::plugin
