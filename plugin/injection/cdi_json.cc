#include "plugin/injection/cdi_json.h"

#include <nlohmann/json.hpp>

namespace mgpu::plugin {

namespace {

using Json = nlohmann::ordered_json;

Json node_json(const DeviceNode& node) {
  return {{"path", node.path}, {"hostPath", node.host_path}, {"permissions", "rw"}};
}

Json mount_json(const Mount& mount) {
  return {{"hostPath", mount.host_path},
          {"containerPath", mount.container_path},
          {"options", {mount.read_only ? "ro" : "rw", "nosuid", "nodev", "rbind"}}};
}

// Empty members are left out: the library refuses a device without any edit, not an absent list.
Json edits_json(const Edits& edits) {
  Json json = Json::object();
  for (const auto& [name, value] : edits.environment) json["env"].push_back(name + "=" + value);
  for (const auto& node : edits.devices) json["deviceNodes"].push_back(node_json(node));
  for (const auto& mount : edits.mounts) json["mounts"].push_back(mount_json(mount));
  return json;
}

}  // namespace

std::string cdi_json(const CdiSpec& spec) {
  Json json = {{"cdiVersion", "0.5.0"}, {"kind", spec.kind}, {"devices", Json::array()}};
  for (const auto& device : spec.devices) {
    json["devices"].push_back(
        {{"name", device.name}, {"containerEdits", edits_json(device.edits)}});
  }
  Json shared = edits_json(spec.shared);
  if (!shared.empty()) json["containerEdits"] = std::move(shared);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mgpu::plugin
