#include "plugin/cards/nvml/memory_limits.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "common/base/files.h"
#include "plugin/cards/nvml/nvml_library.h"

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

Result<std::unique_ptr<OpenNvml>> open_for_limits(const NvmlCallOptions& options) {
  const auto library = load_nvml(options);
  if (!library) return library.error();
  if (!(*library)->functions().has_memory_limits()) return error(kNoMemoryLimits);
  return OpenNvml::open(options);
}

// Returns the code of NVML.
int set_hard_limit(const OpenNvml& nvml, Device device, const std::string& cgroup,
                   unsigned long long hard) {
  nvml::SetMemoryLimits limits{cgroup.c_str(), 0, hard};
  return nvml.functions().set_memory_limits(device, &limits);
}

// Errors: the hard limit of the cgroup is not known, or is another one.
Result<void> compare_limit(const OpenNvml& nvml, Device device, const CardUuid& card,
                           const std::string& cgroup, unsigned long long hard) {
  nvml::GetMemoryLimits limits{cgroup.c_str(), 0, 0, 0};
  const int code = nvml.functions().get_memory_limits(device, &limits);
  if (code != nvml::kOk) return nvml.failed("nvmlDeviceGetMemoryLimits_v1", card, code);
  if (limits.hard == hard) return {};
  return error(fmt::format("the memory limit of card {} was set to {}, and is {}", card.str(),
                           text_of_limit(hard), text_of_limit(limits.hard)));
}

// The cgroup exists, so that the driver has not found the files of a controller.
std::string advice_for_limit(int code) {
  return code == nvml::kNotFound ? "; the cgroup needs the kernel's dmem controller" : "";
}

Result<void> set_limit(const OpenNvml& nvml, const std::string& cgroup, const CardLimit& limit) {
  const auto device = nvml.find(limit.card);
  if (!device) return device.error();
  const auto hard = bytes_of(limit.memory);
  if (const int code = set_hard_limit(nvml, *device, cgroup, hard); code != nvml::kOk) {
    const Error why = nvml.failed("nvmlDeviceSetMemoryLimits_v1", limit.card, code);
    return error(why.message + advice_for_limit(code));
  }
  return compare_limit(nvml, *device, limit.card, cgroup, hard);
}

Result<void> set_limits(const NvmlCallOptions& options, const std::string& cgroup,
                        const std::vector<CardLimit>& limits) {
  const auto nvml = open_for_limits(options);
  if (!nvml) return nvml.error();
  for (const CardLimit& limit : limits) {
    if (auto set = set_limit(**nvml, cgroup, limit); !set) return set;
  }
  return {};
}

// Clears as many as possible, and returns the first error.
Result<void> clear_limits(const NvmlCallOptions& options, const std::string& cgroup,
                          const std::vector<CardUuid>& cards) {
  const auto nvml = open_for_limits(options);
  if (!nvml) return nvml.error();
  Result<void> result;
  for (const CardUuid& card : cards) {
    const auto device = (*nvml)->find(card);
    const int code =
        device ? set_hard_limit(**nvml, *device, cgroup, nvml::kNoMemoryLimit) : nvml::kNotFound;
    if (code == nvml::kOk || code == nvml::kNotFound || !result) continue;
    result = (*nvml)->failed("nvmlDeviceSetMemoryLimits_v1", card, code);
  }
  return result;
}

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
Result<void> probe(const NvmlCallOptions& options, const std::string& root, const CardUuid& card) {
  const auto controllers = controllers_of(root);
  if (!controllers) return controllers.error();
  const auto nvml = open_for_limits(options);
  if (!nvml) return nvml.error();
  const auto device = (*nvml)->find(card);
  if (!device) return device.error();
  const auto cgroup = EmptyCgroup::make(root + kProbeCgroup);
  if (!cgroup) return cgroup.error();
  const std::string& path = (*cgroup)->path();
  const int code = set_hard_limit(**nvml, *device, path, bytes_of(kProbeLimit));
  if (code == nvml::kNotFound && controllers->contains("dmem")) return {};
  if (code == nvml::kNotFound)
    return error("the limits of the driver need the kernel's cgroup controller dmem");
  if (code != nvml::kOk) return (*nvml)->failed("nvmlDeviceSetMemoryLimits_v1", card, code);
  auto same = compare_limit(**nvml, *device, card, path, bytes_of(kProbeLimit));
  static_cast<void>(set_hard_limit(**nvml, *device, path, nvml::kNoMemoryLimit));
  return same;
}

// NVML opens the folder by the name that it gets, and may know names below /sys/fs/cgroup only. A
// privileged container sees the cgroups of the node there, unless it has a cgroup namespace: only
// the root of the hierarchy has no cgroup.type.
std::string cgroup_root_of(const NvmlCallOptions& options) {
  const std::filesystem::path own(options.own_cgroup_root);
  std::error_code unreadable;
  if (!own.empty() && std::filesystem::exists(own / "cgroup.controllers", unreadable) &&
      !std::filesystem::exists(own / "cgroup.type", unreadable)) {
    return own;
  }
  return (options.node_root == "/" ? "" : options.node_root) + "/sys/fs/cgroup";
}

}  // namespace

Result<std::unique_ptr<EmptyCgroup>> EmptyCgroup::make(std::string path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return error(fmt::format("cannot make the cgroup {}: {}", path, std::strerror(errno)));
  }
  return std::unique_ptr<EmptyCgroup>(new EmptyCgroup(std::move(path)));
}

EmptyCgroup::~EmptyCgroup() {
  ::rmdir(path_.c_str());
}

MemoryLimits::MemoryLimits(NvmlCallOptions options)
    : options_(std::move(options)),
      cgroup_root_(cgroup_root_of(options_)),
      calls_(options_.timeout) {}

Result<void> MemoryLimits::available() const {
  if (const auto controllers = controllers_of(cgroup_root_); !controllers)
    return controllers.error();
  const auto library = load_nvml(options_);
  if (!library) return library.error();
  if ((*library)->functions().has_memory_limits()) return {};
  return error(kNoMemoryLimits);
}

Result<void> MemoryLimits::set(const std::string& cgroup, const std::vector<CardLimit>& limits) {
  return calls_.run(
      [options = options_, cgroup, limits] { return set_limits(options, cgroup, limits); });
}

Result<void> MemoryLimits::clear(const std::string& cgroup, const std::vector<CardUuid>& cards) {
  return calls_.run(
      [options = options_, cgroup, cards] { return clear_limits(options, cgroup, cards); });
}

Result<void> MemoryLimits::check(const CardUuid& card) {
  return calls_.run(
      [options = options_, root = cgroup_root_, card] { return probe(options, root, card); });
}

}  // namespace mgpu::plugin
