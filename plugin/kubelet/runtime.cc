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
#include "common/kube/json_value.h"
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

struct CdiConfig {
  std::optional<bool> enabled;
  std::vector<std::string> dirs;
};

Result<CdiConfig> parse_config(std::string_view config) {
  CdiConfig parsed;
  if (config.empty()) return parsed;
  const auto read_enabled = [&](kube::JsonValue& value) {
    if (value.kind() != kube::JsonValue::Kind::kNull) parsed.enabled = value.boolean();
  };
  const auto read = kube::read_json(config, [&](kube::JsonValue& root) {
    root.read({{"enableCDI", read_enabled}, {"cdiSpecDirs", parsed.dirs}});
  });
  if (!read) return read.error();
  return parsed;
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
  const auto with_cdi = [&](bool cdi, std::string_view why) {
    return Runtime{name, version, cdi, fmt::format("{} {} {}", name, version, why)};
  };
  const auto number = parse_version(version);
  if (name == "cri-o") {
    if (number && *number >= kCrioEnabled) return with_cdi(true, "resolves CDI names");
    return with_cdi(false, "does not support CDI, which needs 1.24");
  }
  if (name != "containerd") return with_cdi(false, "is not known to resolve CDI names");
  const auto parsed = parse_config(config);
  if (!parsed) {
    return with_cdi(false, "has a configuration that cannot be read: " + parsed.error().message);
  }
  if (!parsed->enabled.value_or(number && *number >= kContainerdEnabled)) {
    return with_cdi(false, parsed->enabled ? "has CDI disabled (enable_cdi)" : "has no CDI");
  }
  const auto same_folder = [&](const std::string& dir) {
    return folder_key(dir) == folder_key(cdi_dir);
  };
  if (parsed->dirs.empty() || std::ranges::any_of(parsed->dirs, same_folder)) {
    return with_cdi(true, "resolves CDI names");
  }
  std::vector<std::string> dirs;
  std::ranges::transform(parsed->dirs, std::back_inserter(dirs), in_quotes);
  return with_cdi(false, fmt::format("reads CDI specs from {}, not from {} (cdi_spec_dirs)",
                                     fmt::join(dirs, ", "), in_quotes(cdi_dir)));
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
