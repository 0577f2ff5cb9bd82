#include "plugin/cards/driver/driver_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

using FilesByName = std::map<std::string, std::string>;

// CUDA, NVML, OpenCL and the libraries that they load: needed whatever their files are called.
constexpr std::array<std::string_view, 10> kLibraries = {
    "libcuda.so",           "libcudadebugger.so",
    "libnvidia-ml.so",      "libnvidia-nvvm.so",
    "libnvidia-nvvm70.so",  "libnvidia-ptxjitcompiler.so",
    "libnvidia-gpucomp.so", "libnvidia-opencl.so",
    "libnvidia-cfg.so",     "libnvidia-allocator.so"};
// Others are taken if their name ends with the version of the driver, as nvidia-ctk does
// (NVIDIA/nvidia-container-toolkit pkg/nvcdi/driver-nvml.go, getVersionLibs), but for these.
constexpr std::array<std::string_view, 12> kGraphics = {
    "libnvidia-egl",  "libnvidia-fbc",  "libnvidia-glcore", "libnvidia-glsi",
    "libnvidia-glvk", "libnvidia-gtk",  "libnvidia-rtcore", "libnvidia-tls",
    "libnvidia-vksc", "libnvidia-wayl", "libnvidia-xcb",    "libnvidia-present"};
// Names that programs load although not every driver comes with links for them. nvidia-ctk makes
// the same links (internal/discover/symlinks.go, getLinksForMount).
constexpr std::array<std::string_view, 2> kDevelopmentNames = {"libcuda.so",
                                                               "libnvidia-opticalflow.so"};

#if defined(__aarch64__)
constexpr std::string_view kDebianFolder = "/usr/lib/aarch64-linux-gnu";
#else
constexpr std::string_view kDebianFolder = "/usr/lib/x86_64-linux-gnu";
#endif
constexpr std::string_view kRedHatFolder = "/usr/lib64";

// Where packages, NVIDIA's own installer, GKE's Container-Optimized OS, Talos and Bottlerocket
// install drivers.
constexpr std::array<std::string_view, 10> kLibraryFolders = {kDebianFolder,
                                                              kRedHatFolder,
                                                              "/usr/lib",
                                                              "/lib64",
                                                              "/usr/local/nvidia/lib64",
                                                              "/home/kubernetes/bin/nvidia/lib64",
                                                              "/usr/local/glibc/usr/lib64",
                                                              "/usr/local/glibc/usr/lib",
                                                              "/usr/local/glibc/lib",
                                                              "/usr/lib/nvidia/tesla"};
constexpr std::array<std::string_view, 7> kProgramFolders = {"/usr/bin",
                                                             "/bin",
                                                             "/usr/local/nvidia/bin",
                                                             "/home/kubernetes/bin/nvidia/bin",
                                                             "/usr/local/bin",
                                                             "/usr/local/glibc/usr/bin",
                                                             "/usr/libexec/nvidia/tesla/bin"};
constexpr std::string_view kSmi = "nvidia-smi";
// Without this file the OpenCL loader of an image does not find the driver.
constexpr std::string_view kOpenClVendor = "/etc/OpenCL/vendors/nvidia.icd";
// Older kernels read the firmware of a card in the root of the process that opens the card first.
constexpr std::array<std::string_view, 2> kFirmwareFolders = {"/lib/firmware/updates",
                                                              "/lib/firmware"};

constexpr std::string_view kOperatorRoot = "/run/nvidia/driver";
constexpr std::string_view kNvml = "libnvidia-ml.so.1";
constexpr std::string_view kLibcuda = "libcuda.so.1";
constexpr std::string_view kUvm = "nvidia-uvm";

// What this process sees as the root of the driver's file system.
std::string seen_root(const DriverPlace& place) {
  return joined(place.node_root, place.driver_root == "/" ? "" : place.driver_root);
}

std::deque<std::string> parts_of(const fs::path& path) {
  std::deque<std::string> parts;
  for (const fs::path& part : path.relative_path()) parts.push_back(part.string());
  return parts;
}

// What has this path in the file system below `root`, without links. An absolute link begins at
// that root, and none leads out of it. Debian's libcuda.so.1 is a link into /etc/alternatives.
std::optional<std::string> path_in(const std::string& root, const fs::path& path) {
  std::deque<std::string> parts = parts_of(path);
  fs::path at = "/";
  std::error_code failed;
  for (int links = 0; !parts.empty();) {
    const std::string part = parts.front();
    parts.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    const fs::path next = at / part;
    const fs::file_status status = fs::symlink_status(joined(root, next.string()), failed);
    if (!fs::exists(status)) return std::nullopt;
    if (!fs::is_symlink(status)) {
      at = next;
      continue;
    }
    if (++links > kDriverLinksMax) return std::nullopt;
    const fs::path target = fs::read_symlink(joined(root, next.string()), failed);
    if (target.is_absolute()) at = "/";
    const std::deque<std::string> before = parts_of(target);
    parts.insert(parts.begin(), before.begin(), before.end());
  }
  return at.string();
}

std::optional<std::string> file_in(const std::string& root, const fs::path& path) {
  auto file = path_in(root, path);
  std::error_code failed;
  if (!file || !fs::is_regular_file(joined(root, *file), failed)) return std::nullopt;
  return file;
}

// "libcuda.so", "libcuda.so.1", "libcuda.so.580.95.05"
bool is_needed(std::string_view name) {
  return std::ranges::any_of(kLibraries, [&](std::string_view library) {
    return name == library || (name.starts_with(library) && name[library.size()] == '.');
  });
}

bool may_be_of_the_driver(std::string_view name) {
  const auto begins = [&name](std::string_view prefix) { return name.starts_with(prefix); };
  if (begins("libnvcuvid.so") || begins("libcuda")) return true;
  return begins("libnvidia-") && std::ranges::none_of(kGraphics, begins);
}

// Files by their names in the folder, for names that `wanted` accepts.
FilesByName files_in(const DriverPlace& place, std::string_view folder,
                     bool (*wanted)(std::string_view name)) {
  const std::string root = seen_root(place);
  FilesByName files;
  std::error_code failed;
  for (fs::directory_iterator at(joined(root, folder), failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!wanted(name) || files.size() >= kDriverFilesMax) continue;
    if (auto file = file_in(root, fs::path(folder) / name)) files.emplace(name, *std::move(file));
  }
  return files;
}

// "580.95.05" of "/usr/lib64/libcuda.so.580.95.05". Empty if the name has no version of a
// driver, which begins with three digits: "libcuda.so.1", and "libcuda.so.1.1" of Jetson.
std::string version_of(std::string_view file) {
  const std::size_t at = file.rfind(".so.");
  if (at == std::string_view::npos) return {};
  const std::string_view version = file.substr(at + 4);
  const std::size_t branch = version.find('.');
  return branch == std::string_view::npos || branch < 3 ? "" : std::string(version);
}

bool is_of_another_driver(const DriverPlace& place, std::string_view file) {
  const std::string version = version_of(file);
  return !version.empty() && !place.version.empty() && version != place.version;
}

FilesByName libraries_in(const DriverPlace& place, std::string_view folder) {
  FilesByName files = files_in(place, folder, may_be_of_the_driver);
  const std::string suffix = ".so." + place.version;
  std::erase_if(files, [&](const auto& found) {
    const bool versioned = !place.version.empty() && found.second.ends_with(suffix);
    return is_of_another_driver(place, found.first) || (!is_needed(found.first) && !versioned);
  });
  return files;
}

// The names of a folder may be links into another one that has more libraries, as Debian's are.
void add_folder_behind_links(const DriverPlace& place, FilesByName& files) {
  const auto libcuda = files.find(std::string(kLibcuda));
  if (libcuda == files.end()) return;
  files.merge(libraries_in(place, fs::path(libcuda->second).parent_path().string()));
}

// Libraries load each other by the names of the files, too.
void add_names(FilesByName& files) {
  for (const auto& [name, file] : FilesByName(files)) {
    files.emplace(fs::path(file).filename().string(), file);
  }
  for (const std::string_view name : kDevelopmentNames) {
    const auto library = files.find(std::string(name) + ".1");
    if (library != files.end()) files.emplace(name, library->second);
  }
}

// The usual ones, and before them that of NVML if it is another: an installer puts all libraries
// into one. The folder that a link of Debian leads to does not have all of them.
std::vector<std::string> folders_of(const DriverPlace& place) {
  std::vector<std::string> folders(kLibraryFolders.begin(), kLibraryFolders.end());
  const std::string root = seen_root(place) + "/";
  if (!place.nvml.starts_with(root)) return folders;
  const fs::path nvml = place.nvml.substr(root.size() - 1);
  const bool usual = std::ranges::any_of(
      folders, [&](const std::string& folder) { return nvml.string().starts_with(folder + "/"); });
  if (!usual) folders.insert(folders.begin(), nvml.parent_path().string());
  return folders;
}

// Those of the first folder with libcuda.so.1 of the kernel module's driver. If there is none, of
// the first with libcuda.so.1, or of the first with any.
FilesByName libraries_of_the_best_folder(const DriverPlace& place) {
  const std::string name(kLibcuda);
  FilesByName best;
  for (const std::string& folder : folders_of(place)) {
    auto files = libraries_in(place, folder);
    const auto libcuda = files.find(name);
    const bool found = libcuda != files.end();
    if (found && !is_of_another_driver(place, libcuda->second)) return files;
    if (best.empty() || (found && !best.contains(name))) best = std::move(files);
  }
  return best;
}

FilesByName libraries_of(const DriverPlace& place) {
  FilesByName files = libraries_of_the_best_folder(place);
  add_folder_behind_links(place, files);
  add_names(files);
  return files;
}

// A wrapper would need its interpreter, and what it calls, in the container.
bool is_script(const std::string& path) {
  std::array<char, 2> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == "#!";
}

std::optional<std::string> smi_of(const DriverPlace& place) {
  for (const std::string_view folder : kProgramFolders) {
    auto file = file_in(seen_root(place), fs::path(folder) / kSmi);
    if (file && !is_script(seen_root(place) + *file)) return file;
  }
  return std::nullopt;
}

bool is_firmware(std::string_view name) {
  return (name.starts_with("gsp") || name.starts_with("ucodes")) && name.ends_with(".bin");
}

// Firmware by its paths in the driver's root, which are those in a container.
FilesByName firmware_of(const DriverPlace& place) {
  FilesByName all;
  if (place.version.empty()) return all;
  for (const std::string_view start : kFirmwareFolders) {
    const std::string folder = fmt::format("{}/nvidia/{}", start, place.version);
    for (const auto& [name, file] : files_in(place, folder, is_firmware)) {
      all.emplace(fmt::format("{}/{}", folder, name), file);
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> nvml_libraries(const std::string& node_root,
                                        const std::string& driver_root) {
  std::vector<std::string> roots = {"/", std::string(kOperatorRoot)};
  if (!driver_root.empty()) roots.insert(roots.begin(), driver_root);
  std::vector<std::string> libraries;
  for (const std::string& root : roots) {
    const DriverPlace place{.node_root = node_root, .driver_root = root};
    // The loader knows more folders than those below.
    if (root == "/" && node_root == "/") libraries.emplace_back(kNvml);
    for (const std::string_view folder : kLibraryFolders) {
      const auto file = file_in(seen_root(place), fs::path(folder) / kNvml);
      if (file) libraries.push_back(seen_root(place) + *file);
    }
  }
  if (libraries.empty()) {
    libraries.push_back(joined(node_root, kDebianFolder) + "/" + std::string(kNvml));
  }
  return libraries;
}

std::string driver_root_of(std::string_view nvml_library) {
  return std::string(nvml_library.find(kOperatorRoot) == std::string_view::npos ? "/"
                                                                                : kOperatorRoot);
}

DeviceNode device_node(const DriverPlace& place, const std::string& path) {
  std::error_code failed;
  const std::string in_driver = joined(place.driver_root, path);
  const bool elsewhere = !fs::exists(joined(place.node_root, path), failed) &&
                         fs::exists(joined(place.node_root, in_driver), failed);
  return {path, elsewhere ? in_driver : path};
}

std::vector<DeviceNode> control_nodes(const DriverPlace& place) {
  std::vector<DeviceNode> nodes;
  for (const char* const path : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    DeviceNode node = device_node(place, path);
    std::error_code failed;
    if (fs::exists(joined(place.node_root, node.host_path), failed)) {
      nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

std::vector<Mount> driver_files(const DriverPlace& place) {
  std::vector<Mount> mounts;
  for (const auto& [name, file] : libraries_of(place)) {
    for (const std::string_view target : {kDebianFolder, kRedHatFolder}) {
      mounts.push_back({joined(place.driver_root, file), std::string(target) + "/" + name, true});
    }
  }
  if (mounts.empty()) return mounts;
  const auto add = [&](const std::string& file, std::string_view target) {
    mounts.push_back({joined(place.driver_root, file), std::string(target), true});
  };
  if (const auto smi = smi_of(place)) add(*smi, "/usr/bin/nvidia-smi");
  for (const auto& [path, file] : firmware_of(place)) add(file, path);
  if (const auto vendor = file_in(seen_root(place), kOpenClVendor)) add(*vendor, kOpenClVendor);
  return mounts;
}

Result<void> link_in_dev_char(const DriverPlace& place, const std::vector<DeviceNode>& nodes) {
  const fs::path folder = joined(place.node_root, "/dev/char");
  for (const DeviceNode& node : nodes) {
    const fs::path path(node.host_path);
    struct stat device {};
    if (path.parent_path() != "/dev" ||
        stat(joined(place.node_root, node.host_path).c_str(), &device) != 0 ||
        !S_ISCHR(device.st_mode)) {
      continue;
    }
    const fs::path link =
        folder / fmt::format("{}:{}", major(device.st_rdev), minor(device.st_rdev));
    std::error_code failed;
    if (fs::exists(fs::symlink_status(link, failed))) continue;
    fs::create_directories(folder, failed);
    if (!failed) fs::create_symlink(fs::path("..") / path.filename(), link, failed);
    if (failed) return error(fmt::format("cannot create {}: {}", link.string(), failed.message()));
  }
  return {};
}

std::optional<unsigned> uvm_major(const std::string& node_root) {
  std::ifstream devices(joined(node_root, "/proc/devices"));
  for (std::string line; std::getline(devices, line);) {
    std::istringstream words(line);
    unsigned number = 0;
    std::string name;
    if (words >> number >> name && name == kUvm) return number;
  }
  return std::nullopt;
}

// A node may have the device of a module that was unloaded, or loaded again with another number.
bool has_uvm(const DriverPlace& place) {
  const DeviceNode node = device_node(place, "/dev/" + std::string(kUvm));
  struct stat device {};
  if (stat(joined(place.node_root, node.host_path).c_str(), &device) != 0) return false;
  const bool readable = std::ifstream(joined(place.node_root, "/proc/devices")).good();
  if (!readable || !S_ISCHR(device.st_mode)) return true;
  return uvm_major(place.node_root) == major(device.st_rdev);
}

std::string missing_for_cuda(const DriverPlace& place, const Edits& shared) {
  for (const char* const path : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) {
    if (std::ranges::find(shared.devices, path, &DeviceNode::path) == shared.devices.end()) {
      return std::string(path) + " is missing";
    }
  }
  if (!has_uvm(place)) return "the kernel module of /dev/nvidia-uvm is not loaded";
  return libcuda_problem(place, shared);
}

std::string libcuda_problem(const DriverPlace& place, const Edits& edits) {
  const auto libcuda = std::ranges::find_if(edits.mounts, [&](const Mount& mount) {
    const std::string name = fs::path(mount.container_path).filename().string();
    const bool is_versioned = name.starts_with("libcuda.so.") && !version_of(name).empty();
    return name == kLibcuda || (is_versioned && !edits.hooks.empty());
  });
  if (libcuda == edits.mounts.end()) return std::string(kLibcuda) + " is missing";
  if (!is_of_another_driver(place, libcuda->host_path)) return {};
  return fmt::format("{} is of driver {}, the kernel module of {}", kLibcuda,
                     version_of(libcuda->host_path), place.version);
}

std::string joined(const std::string& root, std::string_view path) {
  return (root == "/" ? "" : root) + std::string(path);
}

std::optional<std::string> path_on_node(const std::string& node_root, const std::string& path) {
  auto found = path_in(node_root, path);
  if (found) *found = joined(node_root, *found);
  return found;
}

std::optional<std::string> file_on_node(const std::string& node_root, const std::string& path) {
  auto file = file_in(node_root, path);
  if (file) *file = joined(node_root, *file);
  return file;
}

}  // namespace mgpu::plugin
