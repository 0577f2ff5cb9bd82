// Feeds a CDI spec of NVIDIA's toolkit to its reader.
//
// Properties: the edits are within the limits, and each path is absolute; a spec that is written of
// them again is read as equal; an error is one short sentence.
#include "plugin/cards/driver/toolkit_spec.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugin/cards/limits.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

using nlohmann::json;
using plugin::Edits;

// YAML reads JSON text. Nothing where a text of the spec is not UTF-8.
std::string written_spec(const Edits& edits) try {
  json all = {{"env", json::array()}};
  for (const auto& [name, value] : edits.environment) all["env"].push_back(name + "=" + value);
  for (const auto& node : edits.devices) {
    all["deviceNodes"].push_back({{"path", node.path}, {"hostPath", node.host_path}});
  }
  for (const auto& mount : edits.mounts) {
    all["mounts"].push_back({{"hostPath", mount.host_path},
                             {"containerPath", mount.container_path},
                             {"options", {mount.read_only ? "ro" : "rw"}}});
  }
  for (const auto& hook : edits.hooks) {
    all["hooks"].push_back({{"hookName", hook.name},
                            {"path", hook.path},
                            {"args", hook.arguments},
                            {"env", hook.environment}});
  }
  return json{{"kind", "nvidia.com/gpu"}, {"containerEdits", all}}.dump();
} catch (const json::exception&) {
  return {};
}

void expect_absolute(const std::string& path) {
  expect(path.starts_with('/') && (path + "/").find("/../") == std::string::npos,
         "a path is absolute");
}

void expect_spec_limits(const Edits& edits) {
  for (const std::size_t size :
       {edits.devices.size(), edits.mounts.size(), edits.hooks.size(), edits.environment.size()}) {
    expect(size <= plugin::kToolkitListMax, "lists are bounded");
  }
  for (const auto& node : edits.devices) expect_absolute(node.host_path);
  for (const auto& hook : edits.hooks) expect_absolute(hook.path);
  for (const auto& mount : edits.mounts) {
    expect_absolute(mount.host_path);
    expect_absolute(mount.container_path);
  }
}

}  // namespace

MGPU_FUZZER(toolkit_spec) {
  const auto edits = plugin::parse_toolkit_spec(input);
  if (!edits) return expect_sentence(edits.error().message);
  expect_spec_limits(*edits);
  const std::string text = written_spec(*edits);
  if (text.empty()) return;
  const auto again = plugin::parse_toolkit_spec(text);
  expect(again && *again == *edits,
         "a spec is read as it is written: " + (again ? text : again.error().message));
}

}  // namespace mgpu::fuzz
