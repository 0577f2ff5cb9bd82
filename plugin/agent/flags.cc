#include "plugin/agent/flags.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/cards_file.h"
#include "plugin/cards/nvml_source.h"

namespace mgpu::plugin {

namespace {

constexpr std::size_t kNodeNameMax = 253;

Result<void> check_path(const char* flag, const std::string& path) {
  if (path.starts_with('/')) return {};
  return error(std::string(flag) + ": " + in_quotes(path) + " is not an absolute path");
}

Result<void> check_paths(const Flags& flags) {
  const std::pair<const char*, const std::string&> paths[] = {
      {"--device-plugin-dir", flags.device_plugin_dir},
      {"--pod-resources-socket", flags.pod_resources_socket},
      {"--runtime-socket", flags.runtime_socket},
      {"--state-dir", flags.state_dir},
      {"--run-dir", flags.run_dir},
      {"--cdi-dir", flags.cdi_dir}};
  for (const auto& [flag, path] : paths) {
    if (auto ok = check_path(flag, path); !ok) return ok;
  }
  return flags.cards_file.empty() ? Result<void>() : check_path("--cards-file", flags.cards_file);
}

// What kubelet calls itself where nothing else is said (component-helpers node/util/hostname.go).
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
    std::uint64_t xid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), xid);
    if (failure != std::errc() || end != name.data() + name.size()) {
      return error("--xid-ignore: " + in_quotes(name) + " is not an XID, a whole number");
    }
    all.insert(xid);
  }
  return all;
}

Injection injection_of(const std::string& text) {
  if (text == "cdi") return Injection::kCdi;
  return text == "device-nodes" ? Injection::kDeviceNodes : Injection::kAuto;
}

// Where the runtime is asked, PreStart refuses instead.
Result<void> check_isolation(const Flags& flags) {
  if (flags.isolation != "mps" || flags.injection != "device-nodes") return {};
  return error(
      "--isolation: \"mps\" needs mounts, which --injection=device-nodes cannot give; use "
      "--injection=cdi, or --isolation=none");
}

void add_api_flags(Options& options, Flags& flags) {
  options.add_text("node-name", "name of this node's object; empty = the host's name",
                   flags.node_name);
  add_api_server_flags(options, flags);
  options.add_text("listen-address", "IP address to listen on", flags.listen_address);
  options.add_number("port", "of /metrics, /healthz, /readyz; 0 = any free one", flags.port, 0,
                     65535);
  options.add_text("resource-domain", "domain of resources and annotations", flags.resource_domain);
}

void add_card_flags(Options& options, Flags& flags) {
  options.add_text("cards-file", "YAML file that describes the cards; empty = ask NVML",
                   flags.cards_file);
  options.add_text("nvml-library", "libnvidia-ml.so.1 to load; empty = look where drivers put it",
                   flags.nvml_library);
  options.add_text("xid-ignore", "XIDs that are a program's fault: counted, the card stays healthy",
                   flags.xid_ignore);
  options.add_choice("isolation", "what enforces shares: nothing, or one MPS daemon per card",
                     flags.isolation, {"none", "mps"});
  options.add_text("mps-control", "NVIDIA's control program; a path, or looked up in $PATH",
                   flags.mps_control);
  options.add_choice("enforce", "what happens to a pod that uses more memory than it holds",
                     flags.enforce, {"none", "evict"});
}

void add_kubelet_flags(Options& options, Flags& flags) {
  options.add_text("device-plugin-dir", "folder of kubelet.sock", flags.device_plugin_dir);
  options.add_text("pod-resources-socket", "of kubelet's PodResources API",
                   flags.pod_resources_socket);
  options.add_text("runtime-socket", "of the container runtime (CRI), for --injection=auto",
                   flags.runtime_socket);
  options.add_text("state-dir", "what must outlive a reboot", flags.state_dir);
  options.add_text("run-dir", "what need not", flags.run_dir);
  options.add_text("cdi-dir", "where the runtime looks for CDI specs", flags.cdi_dir);
  options.add_number("settle-ms", "that a container waits for the runtime to see its CDI spec",
                     flags.settle_ms, 0, 5000);
  options.add_choice("memory-resource", "who publishes mgpu-memory: a PATCH, or kubelet",
                     flags.memory_resource, {"node-status", "device-plugin"});
  options.add_choice("injection", "how cards get into containers; auto = cdi where the runtime can",
                     flags.injection, {"auto", "cdi", "device-nodes"});
}

}  // namespace

void add_flags(Options& options, Flags& flags) {
  add_api_flags(options, flags);
  add_card_flags(options, flags);
  add_kubelet_flags(options, flags);
  add_log_flags(options, flags);
  options.check([&flags]() -> Result<void> {
    const auto settings = settings_of(flags);
    if (!settings) return settings.error();
    const auto ignored = xids(flags.xid_ignore);
    if (!ignored) return ignored.error();
    return {};
  });
}

Result<AgentSettings> settings_of(const Flags& flags) {
  auto contract = Contract::for_domain(flags.resource_domain);
  if (!contract) return error("--resource-domain: " + contract.error().message);
  if (auto ok = check_paths(flags); !ok) return ok.error();
  if (auto ok = check_isolation(flags); !ok) return ok.error();
  auto node = node_name(flags);
  if (!node) return node.error();
  AgentSettings settings;
  settings.contract = std::move(*contract);
  settings.node = std::move(*node);
  settings.http.address = flags.listen_address;
  settings.http.port = static_cast<std::uint16_t>(flags.port);
  settings.http.threads = 1;
  settings.plugin_folder = flags.device_plugin_dir;
  settings.pod_resources_socket = flags.pod_resources_socket;
  settings.runtime_socket = flags.runtime_socket;
  settings.state_folder = flags.state_dir;
  settings.run_folder = flags.run_dir;
  settings.cdi_folder = flags.cdi_dir;
  settings.settle = std::chrono::milliseconds(flags.settle_ms);
  settings.injection = injection_of(flags.injection);
  if (flags.memory_resource == "device-plugin") {
    settings.memory_resource = MemoryResource::kDevicePlugin;
  }
  settings.mps = flags.isolation == "mps";
  settings.mps_control = flags.mps_control;
  if (flags.enforce == "evict") settings.enforcement = Enforcement::kEvict;
  return settings;
}

Result<std::unique_ptr<CardSource>> card_source_of(const Flags& flags) {
  if (!flags.cards_file.empty()) return cards_file_source(flags.cards_file);
  NvmlOptions options;
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
                        {"injection", flags.injection},
                        {"isolation", flags.isolation},
                        {"enforce", flags.enforce},
                        {"settle_ms", std::to_string(flags.settle_ms)},
                        {"state_dir", flags.state_dir},
                        {"device_plugin_dir", flags.device_plugin_dir}});
}

}  // namespace mgpu::plugin
