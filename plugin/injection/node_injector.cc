#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/injection/injector.h"

namespace mgpu::plugin {

namespace {

namespace fs = std::filesystem;

Error failed(const char* what, const std::string& path) {
  return error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

// Creates a device node unless it exists. The runtime copies its mode, and any user may use it.
Result<void> make_node(const std::string& path, const std::string& host_path) {
  struct stat host {};
  if (stat(host_path.c_str(), &host) != 0) return failed("read", host_path);
  if (!S_ISCHR(host.st_mode)) return error(host_path + " is not a character device");
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (S_ISCHR(found.st_mode) && found.st_rdev == host.st_rdev) return {};
    if (unlink(path.c_str()) != 0) return failed("remove", path);
  }
  constexpr mode_t kEverybody = 0666;
  if (mknod(path.c_str(), S_IFCHR | kEverybody, host.st_rdev) != 0) return failed("create", path);
  if (chmod(path.c_str(), kEverybody) != 0) return failed("create", path);
  return {};
}

class NodeInjector final : public Injector {
 public:
  NodeInjector(const std::string& folder, const std::string& node_root)
      : folder_(folder + "/allocations"), node_root_(node_root == "/" ? "" : node_root) {}

  std::string name() const override { return "device-nodes"; }

  // The folder does not exist before PreStart, and the runtime refuses the container without it.
  // The driver's files do not depend on the card.
  AllocateResponse allocate_response(const Record& record) const override {
    AllocateResponse response;
    response.edits.environment = environment_of(record);
    response.edits.devices.push_back({"/dev", nodes_of(record.id)});
    const MutexLock lock(mutex_);
    response.edits.mounts = shared_.mounts;
    return response;
  }

  void set_shared(const Edits& shared, const Edits&) override {
    const MutexLock lock(mutex_);
    shared_ = shared;
  }

  void restore(const AllocationId&, const Edits&) override {}

  Result<bool> inject(const AllocationId& id, const Edits& edits) override {
    // Without the mount that enforces its share, the container would have the whole card.
    if (!edits.mounts.empty()) {
      return error(
          fmt::format("--injection=device-nodes cannot mount {}, which enforces the share; use a "
                      "runtime with CDI, or --isolation=none",
                      edits.mounts.front().container_path));
    }
    if (!edits.hooks.empty()) {
      return error(
          fmt::format("--injection=device-nodes cannot run {}, which enforces the share; "
                      "use a runtime with CDI, or --isolation=none",
                      edits.hooks.front().path));
    }
    const MutexLock lock(mutex_);
    const std::string nodes = nodes_of(id);
    std::error_code problem;
    fs::create_directories(nodes, problem);
    if (problem) return error(fmt::format("cannot create {}: {}", nodes, problem.message()));
    std::vector<DeviceNode> devices = edits.devices;
    devices.insert(devices.end(), shared_.devices.begin(), shared_.devices.end());
    std::set<std::string> names;
    for (const DeviceNode& device : devices) {
      const fs::path path(device.path);
      if (path.parent_path() != "/dev") {
        return error(fmt::format(
            "device {} is not directly under /dev; --injection=device-nodes cannot create it",
            device.path));
      }
      names.insert(path.filename());
      const auto made = make_node(fs::path(nodes) / path.filename(), node_root_ + device.host_path);
      if (!made) return made.error();
    }
    for (const auto& entry : fs::directory_iterator(nodes, problem)) {
      if (!names.contains(entry.path().filename())) unlink(entry.path().c_str());
    }
    // Runtimes read the folder when they create the container, so there is nothing to wait for.
    return false;
  }

  void remove(const AllocationId& id) override {
    std::error_code ignored;
    fs::remove_all(folder_ + "/" + id.str(), ignored);
  }

 private:
  std::string nodes_of(const AllocationId& id) const { return folder_ + "/" + id.str() + "/dev"; }

  const std::string folder_;
  const std::string node_root_;
  mutable Mutex mutex_;
  Edits shared_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Injector> node_injector(const std::string& folder, const std::string& node_root) {
  return std::make_unique<NodeInjector>(folder, node_root);
}

}  // namespace mgpu::plugin
