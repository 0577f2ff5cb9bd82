#include "plugin/kubelet/runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/client_context.h>
#include <runtime.grpc.pb.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/kube/objects/json_value.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

struct Version {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Version&) const = default;
};

constexpr Version kContainerdEnabled{2, 0};
constexpr Version kCrioEnabled{1, 24};

bool read_number(std::string_view& text, int& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return failed == std::errc() && number >= 0;
}

// "v2.2.9", "1.7.13~ds1"
std::optional<Version> parse_version(std::string_view text) {
  Version version;
  if (text.starts_with('v')) text.remove_prefix(1);
  if (!read_number(text, version.major) || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  if (!read_number(text, version.minor)) return std::nullopt;
  return version;
}

// /var/run is a link to /run.
std::string folder_key(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.starts_with("/run/") ? "/var" + std::string(path) : std::string(path);
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Its own programs are called nvidia-container-runtime, nvidia-container-runtime.cdi and so on.
bool is_nvidia_runtime(std::string_view program) {
  return file_name(program).starts_with("nvidia-container-runtime");
}

// These give no cards to a container that has not asked for devices.
bool is_plain_runtime(std::string_view program) {
  constexpr std::string_view kPlain[] = {"",
                                         "runc",
                                         "crun",
                                         "youki",
                                         "io.containerd.runc.v1",
                                         "io.containerd.runc.v2",
                                         "containerd-shim-runc-v1",
                                         "containerd-shim-runc-v2"};
  return std::ranges::find(kPlain, file_name(program)) != std::end(kPlain);
}

struct ParsedHandlers {
  std::string default_handler;
  std::vector<std::string> nvidia;
  std::vector<std::string> unknown;
};

void read_handler(kube::JsonValue& value, std::string_view name, ParsedHandlers& parsed) {
  std::string type;
  std::string path;
  std::string engine;  // of containerd before 2.0
  std::string binary;
  const auto read_options = [&](kube::JsonValue& options) {
    options.read({{"BinaryName", binary}});
  };
  value.read({{"runtimeType", type},
              {"runtimePath", path},
              {"runtimeEngine", engine},
              {"options", read_options}});
  const std::string* const programs[] = {&type, &path, &engine, &binary};
  const auto is_nvidia = [](const std::string* program) { return is_nvidia_runtime(*program); };
  if (std::ranges::any_of(programs, is_nvidia)) {
    parsed.nvidia.emplace_back(name);
    return;
  }
  for (const std::string* const program : programs) {
    if (is_plain_runtime(*program)) continue;
    parsed.unknown.push_back(fmt::format("{} ({})", name, *program));
    return;
  }
}

struct ParsedConfig {
  std::optional<bool> cdi;
  std::vector<std::string> cdi_dirs;
  std::optional<ParsedHandlers> handlers;
};

// Handlers of an unexpected form do not matter to CDI.
void read_handlers(kube::JsonValue& value, ParsedConfig& parsed) {
  ParsedHandlers handlers;
  const auto read_all = [&](kube::JsonValue& runtimes) {
    runtimes.members(
        [&](std::string_view name, kube::JsonValue& one) { read_handler(one, name, handlers); });
  };
  const std::string problem = value.try_read([&](kube::JsonValue& containerd) {
    containerd.read({{"defaultRuntimeName", handlers.default_handler}, {"runtimes", read_all}});
  });
  if (problem.empty() && !handlers.default_handler.empty()) parsed.handlers = std::move(handlers);
}

Result<ParsedConfig> parse_config(std::string_view config) {
  ParsedConfig parsed;
  if (config.empty()) return parsed;
  const auto read_enabled = [&](kube::JsonValue& value) {
    if (value.kind() != kube::JsonValue::Kind::kNull) parsed.cdi = value.boolean();
  };
  const auto read = kube::read_json(config, [&](kube::JsonValue& root) {
    root.read({{"enableCDI", read_enabled},
               {"cdiSpecDirs", parsed.cdi_dirs},
               {"containerd", [&](kube::JsonValue& value) { read_handlers(value, parsed); }}});
  });
  if (!read) return read.error();
  return parsed;
}

struct Cdi {
  bool resolves = false;
  std::string why;
};

Cdi cdi_of_containerd(const std::optional<Version>& version, const Result<ParsedConfig>& parsed,
                      const std::string& cdi_dir) {
  if (!parsed) {
    return {false, "has a configuration that cannot be read: " + parsed.error().message};
  }
  if (!parsed->cdi.value_or(version && *version >= kContainerdEnabled)) {
    return {false, parsed->cdi ? "has CDI disabled; set enable_cdi = true in its configuration"
                               : "has no CDI; use 1.7 with enable_cdi = true, or 2.0"};
  }
  const auto same_folder = [&](const std::string& dir) {
    return folder_key(dir) == folder_key(cdi_dir);
  };
  if (parsed->cdi_dirs.empty() || std::ranges::any_of(parsed->cdi_dirs, same_folder)) {
    return {true, "resolves CDI names"};
  }
  std::vector<std::string> dirs;
  std::ranges::transform(parsed->cdi_dirs, std::back_inserter(dirs), in_quotes);
  return {false, fmt::format("reads no CDI specs from {}; add it to cdi_spec_dirs, which is {}",
                             in_quotes(cdi_dir), fmt::join(dirs, ", "))};
}

Cdi cdi_of(const std::string& name, const std::optional<Version>& version,
           const Result<ParsedConfig>& parsed, const std::string& cdi_dir) {
  if (name == "containerd") return cdi_of_containerd(version, parsed, cdi_dir);
  if (name != "cri-o") return {false, "is not known to have CDI; use containerd 2.0 or CRI-O 1.24"};
  if (version && *version >= kCrioEnabled) return {true, "resolves CDI names"};
  return {false, "has no CDI; use 1.24 or later"};
}

Error no_answer(const std::string& socket, const char* call, const grpc::Status& status) {
  return error(fmt::format("container runtime at {} did not answer {}: {}", in_quotes(socket), call,
                           status_text(status)));
}

std::string shown(const std::string& text) {
  return std::string(cut_text(json_escaped(text), kRuntimeNameBytesShown));
}

}  // namespace

Runtime runtime_of(std::string name, std::string version, std::string_view config,
                   const std::string& cdi_dir) {
  // Only containerd's configuration is known.
  Result<ParsedConfig> parsed = ParsedConfig{};
  if (name == "containerd") parsed = parse_config(config);
  const Cdi cdi = cdi_of(name, parse_version(version), parsed, cdi_dir);
  Runtime runtime{name, version, cdi.resolves, fmt::format("{} {} {}", name, version, cdi.why)};
  if (parsed && parsed->handlers) {
    const ParsedHandlers& handlers = *parsed->handlers;
    std::ranges::transform(handlers.nvidia, std::back_inserter(runtime.nvidia_handlers), shown);
    std::ranges::transform(handlers.unknown, std::back_inserter(runtime.unknown_handlers), shown);
    const bool nvidia_first =
        std::ranges::find(handlers.nvidia, handlers.default_handler) != handlers.nvidia.end();
    if (handlers.unknown.empty() || nvidia_first)
      runtime.default_handler = shown(handlers.default_handler);
  }
  return runtime;
}

Result<Runtime> query_runtime(const std::string& socket, const std::string& cdi_dir,
                              std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::system_clock::now() + timeout;
  const auto stub = runtime::v1::RuntimeService::NewStub(unix_channel(socket, kRuntimeBytesMax));
  runtime::v1::VersionResponse version;
  grpc::ClientContext version_context;
  version_context.set_deadline(deadline);
  const auto version_status = stub->Version(&version_context, {}, &version);
  if (!version_status.ok()) return no_answer(socket, "Version", version_status);

  runtime::v1::StatusRequest request;
  request.set_verbose(true);
  runtime::v1::StatusResponse response;
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const auto status = stub->Status(&context, request, &response);
  if (!status.ok()) return no_answer(socket, "Status", status);

  const auto config = response.info().find("config");
  return runtime_of(shown(version.runtime_name()), shown(version.runtime_version()),
                    config == response.info().end() ? std::string() : config->second, cdi_dir);
}

}  // namespace mgpu::plugin
