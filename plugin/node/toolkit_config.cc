#include "plugin/node/toolkit_config.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/base/files.h"
#include "common/base/text.h"
#include "plugin/node/limits.h"

namespace mgpu::plugin {
namespace {

// Where packages install the file, and where the GPU operator does.
constexpr const char* kToolkitFiles[] = {
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
};

std::string_view key_of(std::string_view text) {
  const std::string_view key = trimmed(text);
  const bool quoted =
      key.size() >= 2 && key.front() == key.back() && (key.front() == '"' || key.front() == '\'');
  return quoted ? key.substr(1, key.size() - 2) : key;
}

Result<bool> boolean_of(std::string_view key, std::string_view text) {
  const std::string_view value = trimmed(text.substr(0, text.find('#')));
  if (value == "true") return true;
  if (value == "false") return false;
  return error(fmt::format("{} must be true or false", key));
}

// What follows a value of several lines could be taken for settings.
bool has_several_lines(std::string_view value) {
  const auto has = [&](std::string_view text) { return value.find(text) != value.npos; };
  const bool array = trimmed(value).starts_with('[');
  return has("\"\"\"") || has("'''") || (array && !has("]"));
}

// Reads one line `key = value`.
Result<void> read_setting(std::string_view line, ToolkitSettings& settings) {
  const auto equals = line.find('=');
  if (equals == line.npos) return error("expected a key and a value");
  const std::string_view key = key_of(line.substr(0, equals));
  const std::string_view value = line.substr(equals + 1);
  if (has_several_lines(value)) return error("a value of several lines is not read here");
  if (key != kAcceptVariable && key != kAcceptVolumes) return {};
  const auto read = boolean_of(key, value);
  if (!read) return read.error();
  (key == kAcceptVariable ? settings.by_environment : settings.by_mounts) = *read;
  return {};
}

}  // namespace

Result<ToolkitSettings> parse_toolkit_config(std::string_view text) {
  ToolkitSettings settings;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take_line(text));
    if (line.starts_with('[')) break;  // from here on, keys are those of tables
    if (line.empty() || line.starts_with('#')) continue;
    const auto read = read_setting(line, settings);
    if (!read) return error(fmt::format("line {}: {}", number, read.error().message));
  }
  return settings;
}

FoundToolkit find_toolkit(const std::string& node_root) {
  FoundToolkit found;
  std::optional<ToolkitSettings> all;
  for (const char* const file : kToolkitFiles) {
    const std::string path = node_root == "/" ? file : node_root + file;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    ToolkitSettings settings;
    const auto text =
        read_file(path, kToolkitFileBytesMax, "settings of NVIDIA's container toolkit");
    if (!text) {
      found.problems.push_back(text.error().message);
    } else if (const auto parsed = parse_toolkit_config(*text); !parsed) {
      found.problems.push_back(path + ": " + parsed.error().message);
    } else {
      settings = *parsed;
    }
    if (!all) all = ToolkitSettings{false, false};
    all->by_environment |= settings.by_environment;
    all->by_mounts |= settings.by_mounts;
  }
  found.settings = all.value_or(ToolkitSettings{});
  return found;
}

}  // namespace mgpu::plugin
