#include <filesystem>
#include <map>
#include <utility>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "plugin/injection/cdi_json.h"
#include "plugin/injection/injector.h"

namespace mgpu::plugin {

namespace {

// One file for all allocations: a runtime reads all files of the folder again at every change, and
// many small ones take it several times as long.
class CdiInjector final : public Injector {
 public:
  CdiInjector(const Contract& contract, const std::string& folder)
      : contract_(contract), path_(folder + "/" + contract.domain + "-mgpu.json") {}

  std::string name() const override { return "cdi"; }

  AllocateResponse allocate_response(const Record& record) const override {
    Answer answer{.edits = {}, .cdi_devices = {cdi_name(contract_, record.id)}};
    answer.edits.environment = environment_of(record);
    return answer;
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
    const MutexLock lock(mutex_);
    edits_[id] = edits;
    auto written = write();
    // Nothing that was not written may be taken for written by the next call.
    if (!written) edits_.erase(id);
    return written;
  }

  void remove(const AllocationId& id) override {
    const MutexLock lock(mutex_);
    if (edits_.erase(id) > 0) static_cast<void>(write());
  }

 private:
  // False where the file says it already.
  Result<bool> write() MGPU_REQUIRES(mutex_) {
    CdiSpec spec{.kind = cdi_kind(contract_), .shared = shared_, .devices = {}};
    for (const auto& [id, edits] : edits_) spec.devices.push_back({id.str(), edits});
    std::string text = cdi_json(spec);
    std::error_code unreadable;
    if (text == written_ && std::filesystem::exists(path_, unreadable)) return false;
    // The folder is gone after a power failure anyway.
    if (auto ok = write_file(path_, text, Durability::kProcess); !ok) {
      return ok.error();
    }
    written_ = std::move(text);
    return true;
  }

  const Contract contract_;
  const std::string path_;
  Mutex mutex_;
  Edits shared_ MGPU_GUARDED_BY(mutex_);
  std::map<AllocationId, Edits> edits_ MGPU_GUARDED_BY(mutex_);
  std::string written_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Injector> cdi_injector(const Contract& contract, const std::string& folder) {
  return std::make_unique<CdiInjector>(contract, folder);
}

}  // namespace mgpu::plugin
