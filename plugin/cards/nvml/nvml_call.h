// Calls of NVML that change something, apart from the session that reads the cards. NVML is open
// during calls only, since a start of NVML, which finds new cards, needs that nothing else uses it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/cards/driver_thread.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::plugin {

struct NvmlCallOptions {
  // As in NvmlOptions.
  std::vector<std::string> libraries;
  std::string node_root = "/";
  std::string driver_root;
  // Where this process sees cgroups itself; empty: below `node_root` only.
  std::string own_cgroup_root{};
  // How long a call may take.
  std::chrono::milliseconds timeout = kNvmlCallTimeout;
};

// The library, which is not started. Errors: there is none; one sentence.
Result<std::shared_ptr<const nvml::Library>> load_nvml(const NvmlCallOptions& options);

// NVML from its start to its end. Every function may block for as long as the driver does.
class OpenNvml {
 public:
  static Result<std::unique_ptr<OpenNvml>> open(const NvmlCallOptions& options);
  ~OpenNvml() { library_->functions().shutdown(); }
  OpenNvml(const OpenNvml&) = delete;
  OpenNvml& operator=(const OpenNvml&) = delete;

  Result<nvml::Device> find(const CardUuid& card) const;
  // "nvmlDeviceSetComputeMode of card GPU-a failed: Not Supported (3)"
  Error failed(const char* function, const CardUuid& card, int code) const;
  const nvml::Library& library() const { return *library_; }
  const nvml::Functions& functions() const { return library_->functions(); }

 private:
  explicit OpenNvml(std::shared_ptr<const nvml::Library> library) : library_(std::move(library)) {}

  const std::shared_ptr<const nvml::Library> library_;
};

// Makes calls one after the other, on a thread of their own. Any thread. A call takes `timeout` at
// most, after it has waited for the calls before it. While one hangs, further ones fail at once.
class NvmlCalls {
 public:
  explicit NvmlCalls(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // `call` may outlive this object, so it owns what it uses.
  Result<void> run(std::function<Result<void>()> call);
  // Whether a call has taken too long and still runs. Waits for one that may still be in time.
  bool hangs();

 private:
  const std::chrono::milliseconds timeout_;
  Mutex calls_;
  DriverThread thread_ MGPU_GUARDED_BY(calls_);
};

}  // namespace mgpu::plugin
