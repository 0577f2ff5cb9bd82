#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "common/base/mutex.h"
#include "plugin/injection/injector.h"

namespace mgpu::plugin {

namespace {

namespace fs = std::filesystem;

Error failed(const char* what, const std::string& path) {
  return error(std::string("cannot ") + what + " " + path + ": " + std::strerror(errno));
}

bool same_node(const struct stat& a, const struct stat& b) {
  return S_ISCHR(a.st_mode) && a.st_rdev == b.st_rdev;
}

// True when the node had to be made. The runtime copies the mode, and runs as any user.
Result<bool> make_node(const std::string& path, const std::string& host_path) {
  struct stat wanted {};
  if (stat(host_path.c_str(), &wanted) != 0) return failed("read", host_path);
  if (!S_ISCHR(wanted.st_mode)) return error(host_path + " is not a character device");
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (same_node(found, wanted)) return false;
    if (unlink(path.c_str()) != 0) return failed("remove", path);
  }
  constexpr mode_t kEverybody = 0666;
  if (mknod(path.c_str(), S_IFCHR | kEverybody, wanted.st_rdev) != 0) return failed("make", path);
  if (chmod(path.c_str(), kEverybody) != 0) return failed("make", path);
  return true;
}

class NodeInjector final : public Injector {
 public:
  explicit NodeInjector(const std::string& folder) : folder_(folder + "/allocations") {}

  std::string name() const override { return "device-nodes"; }

  // The folder is made in PreStart, and not here: without it the runtime refuses the container.
  AllocateResponse allocate_response(const Record& record) const override {
    Answer answer;
    answer.edits.environment = environment_of(record);
    answer.edits.devices.push_back({"/dev", nodes_of(record.id)});
    return answer;
  }

  void set_shared(const Edits& shared) override {
    const MutexLock lock(mutex_);
    shared_ = shared;
  }

  void restore(const AllocationId&, const Edits&) override {}

  Result<bool> inject(const AllocationId& id, const Edits& edits) override {
    // A share without what limits it is a whole card.
    if (!edits.mounts.empty()) {
      return error("--injection=device-nodes cannot give " + edits.mounts.front().container_path +
                   ", which enforces the share; use a runtime with CDI, or --isolation=none");
    }
    const MutexLock lock(mutex_);
    const std::string nodes = nodes_of(id);
    std::error_code problem;
    fs::create_directories(nodes, problem);
    if (problem) return error("cannot create " + nodes + ": " + problem.message());
    std::set<std::string> names;
    std::vector<DeviceNode> devices = edits.devices;
    devices.insert(devices.end(), shared_.devices.begin(), shared_.devices.end());
    for (const DeviceNode& device : devices) {
      if (auto ok = make_one(nodes, device, names); !ok) return ok.error();
    }
    drop_others(nodes, names);
    // Runtimes read the folder when they create the container: nothing to wait for.
    return false;
  }

  void remove(const AllocationId& id) override {
    std::error_code ignored;
    fs::remove_all(folder_ + "/" + id.str(), ignored);
  }

 private:
  std::string nodes_of(const AllocationId& id) const { return folder_ + "/" + id.str() + "/dev"; }

  static Result<void> make_one(const std::string& nodes, const DeviceNode& device,
                               std::set<std::string>& names) {
    const std::string name = fs::path(device.path).filename();
    if (fs::path(device.path).parent_path() != "/dev") {
      return error("device " + device.path +
                   " is not directly under /dev; --injection=device-nodes cannot give it");
    }
    names.insert(name);
    auto made = make_node(nodes + "/" + name, device.host_path);
    return made ? Result<void>() : Result<void>(made.error());
  }

  static void drop_others(const std::string& nodes, const std::set<std::string>& names) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(nodes, ignored)) {
      if (!names.contains(entry.path().filename())) unlink(entry.path().c_str());
    }
  }

  const std::string folder_;
  Mutex mutex_;
  Edits shared_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Injector> node_injector(const std::string& folder) {
  return std::make_unique<NodeInjector>(folder);
}

}  // namespace mgpu::plugin
