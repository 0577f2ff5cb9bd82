#include "plugin/cards/memory_limits.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "common/base/files.h"
#include "plugin/cards/driver_files.h"
#include "plugin/cards/nvml_card.h"
#include "plugin/cards/nvml_library.h"

namespace mgpu::plugin {
namespace {

using nvml::Device;

constexpr MiB kProbeLimit{64};
constexpr char kProbeCgroup[] = "/mgpu-limits-probe";
constexpr char kNoMemoryLimits[] =
    "the driver has no nvmlDeviceSetMemoryLimits_v1, which R615 and later have";

unsigned long long bytes_of(MiB memory) {
  return static_cast<unsigned long long>(memory.value()) << 20;
}

std::string text_of_limit(unsigned long long bytes) {
  return bytes == nvml::kNoMemoryLimit ? "no limit" : fmt::format("{} bytes", bytes);
}

// NVML from its start to its end, for one call of MemoryLimits.
class OpenNvml {
 public:
  static Result<std::unique_ptr<OpenNvml>> open(const MemoryLimitOptions& options) {
    auto library = nvml::Library::open(options.libraries.empty()
                                           ? nvml_libraries(options.node_root, options.driver_root)
                                           : options.libraries);
    if (!library) return library.error();
    if (!(*library)->functions().has_memory_limits()) {
      return error(kNoMemoryLimits);
    }
    if (const int code = (*library)->functions().init(); code != nvml::kOk) {
      return error(fmt::format("NVML {}: nvmlInit_v2 failed: {}{}", (*library)->name(),
                               (*library)->describe(code), nvml::advice_for(code)));
    }
    return std::unique_ptr<OpenNvml>(new OpenNvml(*std::move(library)));
  }
  ~OpenNvml() { library_->functions().shutdown(); }
  OpenNvml(const OpenNvml&) = delete;
  OpenNvml& operator=(const OpenNvml&) = delete;

  Result<Device> find(const CardUuid& card) const {
    unsigned count = 0;
    if (const int code = library_->functions().device_count(&count); code != nvml::kOk) {
      return failed("nvmlDeviceGetCount_v2", card, code);
    }
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (library_->functions().device_by_index(i, &device) != nvml::kOk) continue;
      if (nvml::uuid_of(*library_, device) == card) return device;
    }
    return error(fmt::format("NVML has no card {}", card.str()));
  }

  // Returns the code of NVML.
  int set(Device device, const std::string& cgroup, unsigned long long hard) const {
    nvml::SetMemoryLimits limits{cgroup.c_str(), 0, hard};
    return library_->functions().set_memory_limits(device, &limits);
  }

  // Errors: the hard limit of the cgroup is not known, or is another one.
  Result<void> compare(Device device, const CardUuid& card, const std::string& cgroup,
                       unsigned long long hard) const {
    nvml::GetMemoryLimits limits{cgroup.c_str(), 0, 0, 0};
    const int code = library_->functions().get_memory_limits(device, &limits);
    if (code != nvml::kOk) return failed("nvmlDeviceGetMemoryLimits_v1", card, code);
    if (limits.hard == hard) return {};
    return error(fmt::format("the memory limit of card {} was set to {}, and is {}", card.str(),
                             text_of_limit(hard), text_of_limit(limits.hard)));
  }

  Error failed(const char* function, const CardUuid& card, int code) const {
    return error(
        fmt::format("{} of card {} failed: {}", function, card.str(), library_->describe(code)));
  }

 private:
  explicit OpenNvml(std::shared_ptr<const nvml::Library> library) : library_(std::move(library)) {}

  const std::shared_ptr<const nvml::Library> library_;
};

// The cgroup exists, so that the driver has not found the files of a controller.
std::string advice_for_limit(int code) {
  return code == nvml::kNotFound ? "; the cgroup needs the kernel's dmem controller" : "";
}

Result<void> set_limit(const OpenNvml& nvml, const std::string& cgroup, const CardLimit& limit) {
  const auto device = nvml.find(limit.card);
  if (!device) return device.error();
  const auto hard = bytes_of(limit.memory);
  if (const int code = nvml.set(*device, cgroup, hard); code != nvml::kOk) {
    const Error why = nvml.failed("nvmlDeviceSetMemoryLimits_v1", limit.card, code);
    return error(why.message + advice_for_limit(code));
  }
  return nvml.compare(*device, limit.card, cgroup, hard);
}

Result<void> set_limits(const MemoryLimitOptions& options, const std::string& cgroup,
                        const std::vector<CardLimit>& limits) {
  const auto nvml = OpenNvml::open(options);
  if (!nvml) return nvml.error();
  for (const CardLimit& limit : limits) {
    if (auto set = set_limit(**nvml, cgroup, limit); !set) return set;
  }
  return {};
}

// Clears as many as possible, and returns the first error.
Result<void> clear_limits(const MemoryLimitOptions& options, const std::string& cgroup,
                          const std::vector<CardUuid>& cards) {
  const auto nvml = OpenNvml::open(options);
  if (!nvml) return nvml.error();
  Result<void> result;
  for (const CardUuid& card : cards) {
    const auto device = (*nvml)->find(card);
    const int code = device ? (*nvml)->set(*device, cgroup, nvml::kNoMemoryLimit) : nvml::kNotFound;
    if (code == nvml::kOk || code == nvml::kNotFound || !result) continue;
    result = (*nvml)->failed("nvmlDeviceSetMemoryLimits_v1", card, code);
  }
  return result;
}

// A cgroup without processes, which exists as long as the object. Removing it clears its limits.
class EmptyCgroup {
 public:
  static Result<std::unique_ptr<EmptyCgroup>> make(std::string path) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
      return error(fmt::format("cannot make the cgroup {}: {}", path, std::strerror(errno)));
    }
    return std::unique_ptr<EmptyCgroup>(new EmptyCgroup(std::move(path)));
  }
  ~EmptyCgroup() { ::rmdir(path_.c_str()); }
  EmptyCgroup(const EmptyCgroup&) = delete;
  EmptyCgroup& operator=(const EmptyCgroup&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit EmptyCgroup(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

// The controllers of the kernel. Errors: this is not a folder of cgroup v2.
Result<std::set<std::string>> controllers_of(const std::string& root) {
  constexpr std::size_t kBytesMax = 4'096;
  const auto text = read_file(root + "/cgroup.controllers", kBytesMax);
  if (!text) return error(fmt::format("the limits of the driver need cgroup v2 in {}", root));
  std::istringstream words(*text);
  return std::set<std::string>(std::istream_iterator<std::string>(words), {});
}

// A cgroup without the kernel's dmem controller is kNotFound for a driver that uses it. The
// container runtime enables all controllers for containers.
Result<void> probe(const MemoryLimitOptions& options, const std::string& root,
                   const CardUuid& card) {
  const auto controllers = controllers_of(root);
  if (!controllers) return controllers.error();
  const auto nvml = OpenNvml::open(options);
  if (!nvml) return nvml.error();
  const auto device = (*nvml)->find(card);
  if (!device) return device.error();
  const auto cgroup = EmptyCgroup::make(root + kProbeCgroup);
  if (!cgroup) return cgroup.error();
  const std::string& path = (*cgroup)->path();
  const int code = (*nvml)->set(*device, path, bytes_of(kProbeLimit));
  if (code == nvml::kNotFound && controllers->contains("dmem")) return {};
  if (code == nvml::kNotFound)
    return error("the limits of the driver need the kernel's cgroup controller dmem");
  if (code != nvml::kOk) return (*nvml)->failed("nvmlDeviceSetMemoryLimits_v1", card, code);
  auto same = (*nvml)->compare(*device, card, path, bytes_of(kProbeLimit));
  static_cast<void>((*nvml)->set(*device, path, nvml::kNoMemoryLimit));
  return same;
}

}  // namespace

MemoryLimits::MemoryLimits(MemoryLimitOptions options)
    : options_(std::move(options)),
      cgroup_root_((options_.node_root == "/" ? "" : options_.node_root) + "/sys/fs/cgroup") {}

Result<void> MemoryLimits::available() const {
  if (const auto controllers = controllers_of(cgroup_root_); !controllers)
    return controllers.error();
  const auto library = nvml::Library::open(
      options_.libraries.empty() ? nvml_libraries(options_.node_root, options_.driver_root)
                                 : options_.libraries);
  if (!library) return library.error();
  if ((*library)->functions().has_memory_limits()) return {};
  return error(kNoMemoryLimits);
}

Result<void> MemoryLimits::set(const std::string& cgroup, const std::vector<CardLimit>& limits) {
  return run([options = options_, cgroup, limits] { return set_limits(options, cgroup, limits); });
}

Result<void> MemoryLimits::clear(const std::string& cgroup, const std::vector<CardUuid>& cards) {
  return run([options = options_, cgroup, cards] { return clear_limits(options, cgroup, cards); });
}

Result<void> MemoryLimits::check(const CardUuid& card) {
  return run(
      [options = options_, root = cgroup_root_, card] { return probe(options, root, card); });
}

// The call may outlive this object, so it owns what it uses.
Result<void> MemoryLimits::run(std::function<Result<void>()> call) {
  const auto outcome = std::make_shared<std::optional<Result<void>>>();
  const MutexLock lock(calls_);
  const bool in_time = thread_.start([outcome, call = std::move(call)] { *outcome = call(); }) &&
                       thread_.wait(options_.timeout);
  if (!in_time) return error("the NVIDIA driver does not respond to NVML");
  return **outcome;
}

}  // namespace mgpu::plugin
