#include "plugin/kubelet/runtime_cdi.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/kube/json_value.h"

namespace mgpu::plugin {
namespace {

struct Version {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Version&) const = default;
};

constexpr Version kContainerdAlwaysOn{2, 0};
constexpr Version kCrioAlwaysOn{1, 24};

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

std::string listed(const std::vector<std::string>& dirs) {
  std::string text;
  for (const std::string& dir : dirs) text += (text.empty() ? "" : ", ") + in_quotes(dir);
  return text;
}

Runtime answer(Runtime runtime, bool cdi, std::string_view why) {
  runtime.cdi = cdi;
  runtime.why = fmt::format("{} {} {}", runtime.name, runtime.version, why);
  return runtime;
}

Runtime with_config(Runtime runtime, const CdiConfig& config, bool by_default,
                    const std::string& cdi_dir) {
  if (!config.enabled.value_or(by_default)) {
    return answer(std::move(runtime), false,
                  config.enabled ? "has CDI switched off (enable_cdi)" : "has no CDI");
  }
  const bool reads =
      config.dirs.empty() || std::ranges::any_of(config.dirs, [&](const std::string& dir) {
        return folder_key(dir) == folder_key(cdi_dir);
      });
  if (reads) return answer(std::move(runtime), true, "resolves CDI names");
  return answer(std::move(runtime), false,
                fmt::format("reads CDI specs from {}, not from {} (cdi_spec_dirs)",
                            listed(config.dirs), in_quotes(cdi_dir)));
}

}  // namespace

Runtime with_cdi(std::string name, std::string version, std::string_view config,
                 const std::string& cdi_dir) {
  Runtime runtime{.name = std::move(name), .version = std::move(version), .cdi = false, .why = {}};
  const auto number = parse_version(runtime.version);
  if (runtime.name == "cri-o") {
    const bool resolves = number && *number >= kCrioAlwaysOn;
    return answer(std::move(runtime), resolves,
                  resolves ? "resolves CDI names" : "has no CDI; 1.24 has");
  }
  if (runtime.name != "containerd") {
    return answer(std::move(runtime), false, "is not known to resolve CDI names");
  }
  const auto parsed = parse_config(config);
  if (!parsed) {
    return answer(std::move(runtime), false,
                  "gives a configuration that cannot be read: " + parsed.error().message);
  }
  const bool by_default = number && *number >= kContainerdAlwaysOn;
  return with_config(std::move(runtime), *parsed, by_default, cdi_dir);
}

}  // namespace mgpu::plugin
