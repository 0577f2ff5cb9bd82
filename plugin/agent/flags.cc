#include "plugin/agent/flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/file/cards_file.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/nvml_source.h"

namespace mgpu::plugin {

namespace {

constexpr std::size_t kNodeNameMax = 253;
constexpr Duration kEndClientsMax = std::chrono::minutes(10);

Result<void> check_paths(const Flags& flags) {
  const std::pair<const char*, std::string> paths[] = {
      {"--device-plugin-dir", flags.device_plugin_dir},
      {"--pod-resources-socket", flags.pod_resources_socket},
      {"--runtime-socket", flags.runtime_socket},
      {"--state-dir", flags.state_dir},
      {"--run-dir", flags.run_dir},
      {"--cdi-dir", flags.cdi_dir},
      {"--cards-file", flags.cards_file.empty() ? "/" : flags.cards_file},
      {"--nvml-library", flags.nvml_library.empty() ? "/" : flags.nvml_library},
      {"--profiles", flags.profiles.empty() ? "/" : flags.profiles},
      {"--hook-path", flags.hook_path.empty() ? "/" : flags.hook_path},
      {"--node-root", flags.node_root},
      {"--driver-root", flags.driver_root.empty() ? "/" : flags.driver_root}};
  for (const auto& [flag, path] : paths) {
    if (path.starts_with('/')) continue;
    return error(std::string(flag) + ": " + in_quotes(path) + " is not an absolute path");
  }
  return {};
}

std::string without_slash_at_end(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// kubelet's default for the name of its node (component-helpers node/util/hostname.go).
std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return lower_case(name.data());
}

Result<NodeName> node_name(const Flags& flags) {
  const std::string name = flags.node_name.empty() ? host_name() : flags.node_name;
  const bool legal =
      !name.empty() && name.size() <= kNodeNameMax &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos;
  if (legal) return NodeName(name);
  return error("--node-name: " + in_quotes(name) +
               " is not the name of a node: 1 to 253 lower-case letters, digits, \"-\" and \".\"");
}

Result<std::set<std::uint64_t>> xids(const std::string& text) {
  std::set<std::uint64_t> all;
  if (text.empty()) return all;
  const auto names = parse_names(text);
  if (!names) return error("--xid-ignore: " + names.error().message);
  for (const std::string& name : *names) {
    const auto xid = parse_number<std::uint64_t>(name);
    if (!xid) {
      return error("--xid-ignore: " + in_quotes(name) + " is not an XID, a whole number");
    }
    all.insert(*xid);
  }
  return all;
}

Result<void> check_mps(const Flags& flags) {
  if (flags.mps_exclusive && !flags.cards_file.empty()) {
    return error(
        "--mps-exclusive: true sets the compute mode of cards by NVML, but --cards-file is set; "
        "use one of the two");
  }
  if (flags.mps_exclusive && flags.mps_parts_without_limits) {
    return error(
        "--mps-parts-without-limits: true needs programs that do not use MPS, which "
        "--mps-exclusive keeps off the cards; use one of the two");
  }
  return {};
}

std::optional<MiB> reserve_of(const Flags& flags) {
  // A cards file has the memory that pods may have.
  if (!flags.cards_file.empty()) return MiB();
  if (flags.reserve_mib < 0) return std::nullopt;
  return MiB(flags.reserve_mib);
}

Result<std::vector<Profile>> profiles_of(const Flags& flags) {
  if (flags.profiles.empty()) return std::vector<Profile>();
  const auto text = read_file(flags.profiles, kProfilesFileBytesMax, "the file of profiles");
  if (!text) return error("--profiles: " + text.error().message);
  auto profiles = parse_profiles(*text);
  if (!profiles) return error("--profiles: " + profiles.error().message);
  return profiles;
}

// Where the cards and their driver are.
void add_driver_flags(Options& options, Flags& flags) {
  options.add_text("cards-file",
                   "Path to a YAML file that describes the cards. If empty, they are read from "
                   "NVML.",
                   flags.cards_file);
  options.add_text("nvml-library",
                   "Path to libnvidia-ml.so.1. If empty, the usual driver locations are searched.",
                   flags.nvml_library);
  options.add_text("node-root",
                   "Where this process sees the root directory of the node, for the files of the "
                   "driver.",
                   flags.node_root);
  options.add_text("driver-root",
                   "The root of the file system with the driver, on the node: / or, for example, "
                   "/run/nvidia/driver. If empty, that of the NVML that was found.",
                   flags.driver_root);
  options.add_flag("check-driver",
                   "Offer no card while libcuda.so.1 or a device that CUDA needs is not found on "
                   "the node, or on which the library of --isolation=intercept has not passed its "
                   "self test.",
                   flags.check_driver);
  options.add_text("xid-ignore",
                   "A comma-separated list of XIDs that do not make a card unhealthy, since "
                   "programs cause them.",
                   flags.xid_ignore);
}

void add_mps_control_flag(Options& options, Flags& flags) {
  options.add_text("mps-control",
                   "NVIDIA's MPS control program, as a path or as a name to search in $PATH.",
                   flags.mps_control);
}

// Profiles can have the isolation that it needs.
Result<void> check_compute(const Flags& flags) {
  const ComputeMode wanted = compute_mode(flags.compute);
  const IsolationMode memory = isolation_mode(flags.isolation);
  const bool unused = compute_with(memory, wanted) != wanted;
  if (wanted == ComputeMode::kNone || !unused || !flags.profiles.empty()) return {};
  return error(fmt::format("--compute: {} needs {}, and --isolation is {}", flags.compute,
                           wanted == ComputeMode::kMps
                               ? "a limit of memory: --isolation=mps, intercept, driver or auto"
                               : "the library of --isolation=intercept or auto",
                           flags.isolation));
}

void add_run_dir_flag(Options& options, Flags& flags) {
  options.add_text("run-dir", "Directory for state that may be lost on reboot.", flags.run_dir);
}

// How shares are enforced.
void add_isolation_flags(Options& options, Flags& flags) {
  options.add_number("reserve-mib",
                     "The memory of each card in MiB that no pod gets, in addition to what the "
                     "driver reserves. -1: 512 where MPS is used, otherwise 0.",
                     flags.reserve_mib, -1, kCardMemoryMiBMax);
  options.add_number("unified-memory-mib",
                     "The memory in MiB of each card that has none of its own and uses that of the "
                     "processor, as GB10. 0: pods get such a card as a whole only.",
                     flags.unified_memory_mib, 0, kCardMemoryMiBMax);
  options.add_number("min-memory-mib",
                     "The least memory of a card in MiB that a pod may request, besides "
                     "--min-memory-mib of mgpu-extender. -1: 1024 where shares are enforced, "
                     "because the context of a CUDA program counts there, otherwise 0.",
                     flags.min_memory_mib, -1, kCardMemoryMiBMax);
  options.add_choice("isolation",
                     "How the memory of shares is limited: not at all; by a library in the place "
                     "of libcuda.so.1 in containers (\"intercept\"); by the driver (R615 and "
                     "later, cgroup v2); or by one MPS daemon per card, which limits each process "
                     "separately, and its compute. \"auto\" is the driver if it can, else the "
                     "library, else nothing.",
                     flags.isolation, {"none", "intercept", "mps", "driver", "auto"});
  options.add_choice("compute",
                     "How the compute of cards is shared out: not at all, so that each container "
                     "gets as much as its programs ask for; by the library of "
                     "--isolation=intercept, so that each container gets its percentage at least, "
                     "and what others leave (\"burst\"), or its percentage at most (\"fixed\"); or "
                     "by one MPS daemon per card, besides the library or the driver, which limits "
                     "the memory.",
                     flags.compute, {"none", "burst", "fixed", "mps"});
  options.add_text(
      "hook-path",
      "Path to mgpu-set-limits on the node, for the driver's limits and MPS. If empty, the "
      "program is copied to --state-dir.",
      flags.hook_path);
  add_mps_control_flag(options, flags);
  options.add_flag("mps-service",
                   "mgpu-mps runs the MPS daemons, and this program only watches them.",
                   flags.mps_service);
  options.add_flag("mps-exclusive",
                   "Set the compute mode of cards whose shares MPS enforces to EXCLUSIVE_PROCESS, "
                   "so that programs that do not use MPS cannot use them.",
                   flags.mps_exclusive);
  options.add_flag("mps-parts-without-limits",
                   "Let containers with parts of several cards start without limits where MPS "
                   "enforces shares. Cannot be combined with --mps-exclusive.",
                   flags.mps_parts_without_limits);
  options.add_duration("mps-end-clients",
                       "How long before the end of a pod's grace period its processes that are "
                       "still clients of MPS are ended by the MPS daemon, but not before half of "
                       "the period. 0: they are killed as clients, which can stop the programs of "
                       "other pods on the card.",
                       flags.mps_end_clients, Duration(0), kEndClientsMax);
  options.add_flag(
      "beside-nvidia",
      "Offer the cards of a node that has nvidia.com/gpu as well, which another device "
      "plugin gives out. Only for nodes whose device plugins have different cards.",
      flags.beside_nvidia);
  options.add_choice("enforce", "The action for a pod that uses more GPU memory than it holds.",
                     flags.enforce, {"none", "evict"});
  options.add_number(
      "context-mib",
      "What the CUDA context of a process takes of a card, in MiB. With "
      "--isolation=intercept it is reserved for each process. Up to four processes of a "
      "container may use as much beyond its memory before that counts as overuse.",
      flags.context_mib, 0, kCardMemoryMiBMax);
}

}  // namespace

void add_flags(Options& options, Flags& flags) {
  options.add_text("node-name",
                   "The name of the Node object of this node. Defaults to the host name.",
                   flags.node_name);
  add_api_server_flags(options, flags);
  add_service_flags(options, flags.service,
                    "Permit that bearer tokens are sent to --metrics-bind-address without TLS.");
  options.add_text("resource-domain", "The domain of the resource and annotation names.",
                   flags.resource_domain);
  add_driver_flags(options, flags);
  options.add_text("profiles",
                   "Path to a YAML file with named profiles: settings of groups of nodes, which "
                   "replace those of other flags on the nodes that they select.",
                   flags.profiles);
  add_isolation_flags(options, flags);
  options.add_flag(
      "taint",
      "Taint the node with <resource-domain>/mgpu-needs-cpu:PreferNoSchedule while it has "
      "fewer than 24 free cores for each free card, so that pods without cards prefer "
      "other nodes.",
      flags.taint);
  options.add_text("device-plugin-dir", "The directory of kubelet.sock.", flags.device_plugin_dir);
  options.add_text("pod-resources-socket", "Path to the socket of kubelet's PodResources API.",
                   flags.pod_resources_socket);
  options.add_text("runtime-socket",
                   "Path to the CRI socket of the container runtime, which is asked whether it has "
                   "CDI and gives cards to containers by itself.",
                   flags.runtime_socket);
  options.add_text("state-dir", "Directory for state that must survive a reboot.", flags.state_dir);
  add_run_dir_flag(options, flags);
  options.add_text("cdi-dir", "The directory in which the container runtime reads CDI specs.",
                   flags.cdi_dir);
  options.add_number("settle-ms",
                     "The time in milliseconds to wait after a CDI spec was written, so that the "
                     "container runtime reads it before the container is created.",
                     flags.settle_ms, 0, 5000);
  options.add_choice("memory-resource",
                     "How the memory resource is published: by a PATCH of the Node status, or by "
                     "kubelet as a device plugin resource.",
                     flags.memory_resource, {"node-status", "device-plugin"});
  options.add_removed("injection",
                      "containers get their cards by CDI alone, which the container runtime must "
                      "have");
  options.add_removed(
      "unused-after",
      "the alert MGPUUnusedShares reports unused shares, and its `for` is the time");
  add_log_flags(options, flags);
  options.check([&flags]() -> Result<void> {
    if (const auto read = options_of(flags); !read) return read.error();
    const auto ignored = xids(flags.xid_ignore);
    if (!ignored) return ignored.error();
    return {};
  });
}

void add_mps_service_flags(Options& options, Flags& flags) {
  add_driver_flags(options, flags);
  add_mps_control_flag(options, flags);
  add_run_dir_flag(options, flags);
  add_log_flags(options, flags);
  options.check([&flags]() -> Result<void> {
    if (auto ok = check_paths(flags); !ok) return ok.error();
    if (auto ignored = xids(flags.xid_ignore); !ignored) return ignored.error();
    return {};
  });
}

Result<AgentOptions> options_of(const Flags& flags) {
  auto contract = Contract::for_domain(flags.resource_domain);
  if (!contract) return error("--resource-domain: " + contract.error().message);
  if (auto ok = check_paths(flags); !ok) return ok.error();
  if (auto ok = check_mps(flags); !ok) return ok.error();
  auto node = node_name(flags);
  if (!node) return node.error();
  auto service = service_options_of(flags.service);
  if (!service) return service.error();
  AgentOptions options;
  options.contract = std::move(*contract);
  options.node = std::move(*node);
  options.service = std::move(*service);
  options.plugin_folder = flags.device_plugin_dir;
  options.pod_resources_socket = flags.pod_resources_socket;
  options.runtime_socket = flags.runtime_socket;
  options.state_folder = flags.state_dir;
  options.run_folder = flags.run_dir;
  options.cdi_folder = flags.cdi_dir;
  options.settle = std::chrono::milliseconds(flags.settle_ms);
  if (flags.memory_resource == "device-plugin") {
    options.memory_resource = MemoryResource::kDevicePlugin;
  }
  options.node_root = without_slash_at_end(flags.node_root);
  options.taint = flags.taint;
  options.isolation.mode = isolation_mode(flags.isolation);
  if (auto ok = check_compute(flags); !ok) return ok.error();
  options.isolation.compute = compute_mode(flags.compute);
  auto profiles = profiles_of(flags);
  if (!profiles) return profiles.error();
  options.profiles = *std::move(profiles);
  options.reserve = reserve_of(flags);
  if (flags.min_memory_mib >= 0) options.minimum_memory = MiB(flags.min_memory_mib);
  options.isolation.mps.control = flags.mps_control;
  options.isolation.hook_path = flags.hook_path;
  options.isolation.nvml = nvml_calls_of(flags);
  options.isolation.self_test = flags.check_driver;
  options.isolation.mps.watch_only = flags.mps_service;
  options.isolation.mps_exclusive = flags.mps_exclusive;
  options.isolation.mps_parts_without_limits = flags.mps_parts_without_limits;
  options.mps_end_clients = flags.mps_end_clients;
  options.beside_nvidia = flags.beside_nvidia;
  if (flags.enforce == "evict") options.enforcement = Enforcement::kEvict;
  options.context = MiB(flags.context_mib);
  return options;
}

NvmlCallOptions nvml_calls_of(const Flags& flags) {
  NvmlCallOptions calls;
  calls.node_root = without_slash_at_end(flags.node_root);
  calls.driver_root = without_slash_at_end(flags.driver_root);
  calls.own_cgroup_root = "/sys/fs/cgroup";
  if (!flags.nvml_library.empty()) calls.libraries = {flags.nvml_library};
  return calls;
}

Result<std::unique_ptr<CardSource>> card_source_of(const Flags& flags) {
  if (!flags.cards_file.empty()) return cards_file_source(flags.cards_file);
  NvmlOptions options;
  options.node_root = without_slash_at_end(flags.node_root);
  options.driver_root = without_slash_at_end(flags.driver_root);
  options.must_run_cuda = flags.check_driver;
  // With profiles, the agent applies that of the node.
  if (flags.profiles.empty()) {
    const auto compute = compute_with(isolation_mode(flags.isolation), compute_mode(flags.compute));
    options.reserve = reserve_of(flags).value_or(default_reserve(compute));
  }
  if (flags.unified_memory_mib > 0) options.unified_memory = MiB(flags.unified_memory_mib);
  if (!flags.nvml_library.empty()) options.libraries = {flags.nvml_library};
  auto ignored = xids(flags.xid_ignore);
  if (!ignored) return ignored.error();
  options.xids_ignored = std::move(*ignored);
  return nvml_source(std::move(options));
}

void log_flags(const Flags& flags) {
  log_info("starting", {{"version", version_text()},
                        {"resource_domain", flags.resource_domain},
                        {"cards", flags.cards_file.empty() ? "NVML" : flags.cards_file},
                        {"memory_resource", flags.memory_resource},
                        {"isolation", flags.isolation},
                        {"compute", flags.compute},
                        {"profiles", flags.profiles},
                        {"mps_service", flags.mps_service ? "true" : "false"},
                        {"mps_exclusive", flags.mps_exclusive ? "true" : "false"},
                        {"reserve_mib", std::to_string(flags.reserve_mib)},
                        {"context_mib", std::to_string(flags.context_mib)},
                        {"enforce", flags.enforce},
                        {"settle_ms", std::to_string(flags.settle_ms)},
                        {"state_dir", flags.state_dir},
                        {"device_plugin_dir", flags.device_plugin_dir}});
}

}  // namespace mgpu::plugin
