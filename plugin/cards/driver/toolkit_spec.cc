#include "plugin/cards/driver/toolkit_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/yaml_fields.h"

namespace mgpu::plugin {
namespace {

using yaml::Entry;
using yaml::Fields;
using yaml::refuse;
using yaml::Value;

// NVIDIA's default pipe directory of MPS, which nvidia-ctk lists if it exists.
constexpr std::string_view kCommonMpsPipe = "/tmp/nvidia-mps";

constexpr std::string_view kToolkitKind = "nvidia.com/gpu";
// A spec of the first folder replaces one of the second, as for container runtimes.
constexpr std::array<const char*, 2> kCdiFolders = {"/var/run/cdi", "/etc/cdi"};
// Those of nvidia-cdi-refresh and of NVIDIA's documentation, and that of NixOS.
constexpr std::array<const char*, 3> kToolkitNames = {"nvidia.yaml", "nvidia.json",
                                                      "nvidia-container-toolkit.json"};
// The kinds of hooks in the OCI runtime specification.
constexpr std::array<std::string_view, 6> kHookNames = {
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};

// Nothing if the list is absent.
std::vector<Entry> entries_of(const Fields& from, std::string_view name) {
  return from.has(name) ? from.list(name, kToolkitListMax) : std::vector<Entry>();
}

std::vector<std::string> texts_of(const Fields& from, std::string_view name) {
  std::vector<std::string> texts;
  for (const auto& [place, node] : entries_of(from, name)) {
    if (!node.is_text() || node.text.size() > kPathBytesMax ||
        node.text.find('\0') != std::string::npos) {
      refuse(fmt::format("{} must be a text of at most {} bytes", place, kPathBytesMax));
    }
    texts.push_back(node.text);
  }
  return texts;
}

Mount read_toolkit_mount(const Entry& entry) {
  const Fields fields(entry.node, entry.place, {});
  const auto options = texts_of(fields, "options");
  return {.host_path = fields.absolute_path("hostPath"),
          .container_path = fields.absolute_path("containerPath"),
          .read_only = std::ranges::find(options, "ro") != options.end()};
}

DeviceNode read_toolkit_node(const Entry& entry) {
  const Fields fields(entry.node, entry.place, {});
  const std::string path = fields.absolute_path("path");
  return {path, fields.has("hostPath") ? fields.absolute_path("hostPath") : path};
}

Hook read_toolkit_hook(const Entry& entry) {
  const Fields fields(entry.node, entry.place, {});
  Hook hook{.name = fields.text("hookName"),
            .path = fields.absolute_path("path"),
            .arguments = texts_of(fields, "args"),
            .environment = texts_of(fields, "env"),
            .timeout_seconds = fields.has("timeout") ? fields.number<int>("timeout", 1, 3'600) : 0};
  if (std::ranges::find(kHookNames, hook.name) == kHookNames.end()) {
    refuse(fmt::format("{} must be one of {}, found {}", fields.place_of("hookName"),
                       fmt::join(kHookNames, ", "), in_quotes(hook.name)));
  }
  return hook;
}

Environment read_toolkit_environment(const Fields& from) {
  Environment environment;
  for (const std::string& variable : texts_of(from, "env")) {
    const std::size_t at = variable.find('=');
    if (at == std::string::npos || at == 0) {
      refuse(fmt::format("{} must have texts NAME=value, found {}", from.place_of("env"),
                         in_quotes(variable)));
    }
    environment[variable.substr(0, at)] = variable.substr(at + 1);
  }
  return environment;
}

Edits read_toolkit_edits(const Fields& from) {
  Edits edits;
  for (const Entry& node : entries_of(from, "deviceNodes")) {
    edits.devices.push_back(read_toolkit_node(node));
  }
  for (const Entry& mount : entries_of(from, "mounts")) {
    edits.mounts.push_back(read_toolkit_mount(mount));
  }
  for (const Entry& hook : entries_of(from, "hooks")) {
    edits.hooks.push_back(read_toolkit_hook(hook));
  }
  edits.environment = read_toolkit_environment(from);
  return edits;
}

// "/dev/nvidia0"
bool is_card(std::string_view path) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  return path.starts_with(kPrefix) && path.size() > kPrefix.size() &&
         path.find_first_not_of("0123456789", kPrefix.size()) == path.npos;
}

}  // namespace

Result<Edits> parse_toolkit_spec(std::string_view text) {
  return yaml::read<Edits>(text, [](const Value& document) {
    const Fields root(document, "", {});
    const std::string kind = root.text("kind");
    if (kind != kToolkitKind) {
      refuse(fmt::format("kind must be {}, found {}", kToolkitKind, in_quotes(kind)));
    }
    Edits edits = read_toolkit_edits(Fields(root.child("containerEdits"), "containerEdits", {}));
    for (const DeviceNode& node : edits.devices) {
      if (is_card(node.path))
        refuse("containerEdits.deviceNodes must have no card, found " + in_quotes(node.path));
    }
    // Every container would be a client of a daemon that is not this plugin's.
    std::erase_if(edits.mounts,
                  [](const Mount& mount) { return mount.container_path == kCommonMpsPipe; });
    return edits;
  });
}

std::string why_not_usable(const DriverPlace& place, const Edits& edits) {
  std::vector<std::string> paths;
  for (const DeviceNode& node : edits.devices) paths.push_back(node.host_path);
  for (const Mount& mount : edits.mounts) paths.push_back(mount.host_path);
  for (const Hook& hook : edits.hooks) paths.push_back(hook.path);
  // Says that an old spec is of another driver rather than which of its files is gone.
  const std::string problem = libcuda_problem(place, edits);
  if (!problem.empty()) return problem;
  const auto gone = std::ranges::find_if(
      paths, [&](const std::string& path) { return !path_on_node(place.node_root, path); });
  return gone == paths.end() ? "" : fmt::format("the node has no {}", *gone);
}

// Null if there is no such file.
ToolkitSpecs::Spec* ToolkitSpecs::read(const DriverPlace& place, const std::string& path) {
  const auto file = file_on_node(place.node_root, path);
  if (!file) {
    specs_.erase(path);
    return nullptr;
  }
  auto text = read_file(*file, kToolkitSpecBytesMax, "CDI spec");
  const auto known = specs_.find(path);
  if (!text) {
    Spec& spec = specs_.try_emplace(path, Spec{"", text.error(), {}}).first->second;
    spec.text.clear();
    spec.edits = text.error();
    return &spec;
  }
  if (known != specs_.end() && known->second.text == *text) return &known->second;
  auto edits = parse_toolkit_spec(*text);
  return &specs_.insert_or_assign(path, Spec{*std::move(text), std::move(edits), {}}).first->second;
}

void ToolkitSpecs::say(const std::string& path, Spec& spec, const std::string& problem) {
  if (spec.said == problem) return;
  spec.said = problem;
  if (problem.empty()) {
    return log_info("containers get the driver's files of a CDI spec", {{"spec", path}});
  }
  log_warn("a CDI spec of NVIDIA's toolkit is not used",
           {{"spec", path},
            {"problem", problem},
            {"advice", "nvidia-ctk cdi generate --output=" + path + " writes a new one"}});
}

std::optional<Edits> ToolkitSpecs::find(const DriverPlace& place) {
  for (const std::string folder : kCdiFolders) {
    for (const char* const name : kToolkitNames) {
      const std::string path = folder + "/" + name;
      Spec* const spec = read(place, path);
      if (spec == nullptr) continue;
      const std::string problem =
          spec->edits ? why_not_usable(place, *spec->edits) : spec->edits.error().message;
      say(path, *spec, problem);
      if (problem.empty()) return *spec->edits;
    }
  }
  return std::nullopt;
}

}  // namespace mgpu::plugin
