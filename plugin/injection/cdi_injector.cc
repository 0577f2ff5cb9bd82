#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/mutex.h"
#include "plugin/injection/injector.h"

namespace mgpu::plugin {

namespace {

using Json = nlohmann::ordered_json;

// Empty members are left out: CDI's library rejects a device without any edit, but accepts an
// absent list.
Json edits_json(const Edits& edits) {
  Json json = Json::object();
  for (const auto& [name, value] : edits.environment) json["env"].push_back(name + "=" + value);
  for (const DeviceNode& node : edits.devices) {
    json["deviceNodes"].push_back(
        {{"path", node.path}, {"hostPath", node.host_path}, {"permissions", "rw"}});
  }
  for (const Mount& mount : edits.mounts) {
    Json options = {mount.read_only ? "ro" : "rw", "nosuid", "nodev"};
    if (mount.no_exec) options.push_back("noexec");
    options.push_back("rbind");
    json["mounts"].push_back({{"hostPath", mount.host_path},
                              {"containerPath", mount.container_path},
                              {"options", std::move(options)}});
  }
  for (const Hook& hook : edits.hooks) {
    Json entry = {{"hookName", hook.name}, {"path", hook.path}};
    if (!hook.arguments.empty()) entry["args"] = hook.arguments;
    if (!hook.environment.empty()) entry["env"] = hook.environment;
    if (hook.timeout_seconds > 0) entry["timeout"] = hook.timeout_seconds;
    json["hooks"].push_back(std::move(entry));
  }
  return json;
}

// kubelet passes the same response of Allocate to the runtime whenever the container starts again.
// Earlier versions could name a folder of device nodes in it, and ended the nonce of such an
// allocation with a digit that the others do not have.
bool has_device_nodes(const AllocationId& id) {
  return id.str().ends_with('0');
}

// One file for all allocations: a runtime reads all files of the folder again at every change,
// which takes several times as long with many small ones.
class CdiInjector final : public Injector {
 public:
  CdiInjector(const Contract& contract, const std::string& folder)
      : contract_(contract), path_(folder + "/" + contract.domain + "-mgpu.json") {
    remove_unfinished(path_);
  }

  AllocateResponse allocate_response(const Record& record) const override {
    return {environment_of(record), {cdi_name(contract_, record.id)}};
  }

  void set_shared(const Edits& shared) override {
    const MutexLock lock(mutex_);
    shared_ = shared;
  }

  void restore(const AllocationId& id, const Edits& edits) override {
    const MutexLock lock(mutex_);
    edits_[id] = edits;
  }

  Result<bool> inject(const AllocationId& id, const Edits& edits) override {
    if (has_device_nodes(id)) {
      return error(
          "an earlier version of mgpu-device-plugin has given this container device nodes without "
          "CDI, and it cannot start again with them; delete the pod so that it is created again");
    }
    const MutexLock lock(mutex_);
    edits_[id] = edits;
    return write();
  }

  void remove(const AllocationId& id) override {
    const MutexLock lock(mutex_);
    if (edits_.erase(id) > 0) static_cast<void>(write());
  }

 private:
  // Version 0.5.0 is the lowest with hostPath (container-device-interface SPEC.md). A spec without
  // devices is legal.
  std::string spec_json() const MGPU_REQUIRES(mutex_) {
    Json spec = {
        {"cdiVersion", "0.5.0"}, {"kind", cdi_kind(contract_)}, {"devices", Json::array()}};
    for (const auto& [id, edits] : edits_) {
      spec["devices"].push_back({{"name", id.str()}, {"containerEdits", edits_json(edits)}});
    }
    MGPU_DEBUG_CHECK(spec["devices"].size() == edits_.size(), "a device for each container");
    Json shared = edits_json(shared_);
    if (!shared.empty()) spec["containerEdits"] = std::move(shared);
    return spec.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  // False if the file is up to date. What was written last does not say so: another process, such
  // as one that this one has replaced, may have written it since.
  Result<bool> write() MGPU_REQUIRES(mutex_) {
    const std::string text = spec_json();
    const auto found = read_file(path_, text.size());
    if (found && *found == text) return false;
    // The folder does not survive a restart of the node anyway.
    if (auto ok = write_file(path_, text, Durability::kProcess); !ok) return ok.error();
    return true;
  }

  const Contract contract_;
  const std::string path_;
  Mutex mutex_;
  Edits shared_ MGPU_GUARDED_BY(mutex_);
  std::map<AllocationId, Edits> edits_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Injector> cdi_injector(const Contract& contract, const std::string& folder) {
  return std::make_unique<CdiInjector>(contract, folder);
}

}  // namespace mgpu::plugin
