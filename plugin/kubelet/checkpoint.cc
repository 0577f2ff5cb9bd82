#include "plugin/kubelet/checkpoint.h"

#include <deviceplugin.pb.h>

#include <optional>

#include "common/base/base64.h"
#include "common/base/files.h"
#include "common/base/text.h"
#include "common/kube/objects/json_value.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {
namespace {

using kube::JsonValue;
using Kind = JsonValue::Kind;

// An entry as kubelet writes it.
struct EntryText {
  std::string resource;
  std::string uid;
  std::string container;
  std::vector<std::string> devices;
  std::string response;  // base64 of the answer to Allocate
};

// A list, or one list for each NUMA node. A node without devices has null.
std::vector<std::string> read_devices(JsonValue& from) {
  if (from.kind() != Kind::kObject) return from.text_list();
  std::vector<std::string> all;
  from.members([&](std::string_view, JsonValue& node) {
    for (std::string& id : node.text_list()) all.push_back(std::move(id));
  });
  return all;
}

// Returns an empty id if the response has none, and nothing if the response cannot be read.
std::optional<AllocationId> allocation_of(const std::string& encoded) {
  const auto bytes = decode_base64(encoded);
  v1beta1::ContainerAllocateResponse response;
  if (!bytes || !response.ParseFromString(*bytes)) return std::nullopt;
  const auto found = response.envs().find("MGPU_ALLOCATION");
  if (found == response.envs().end()) return AllocationId();
  AllocationId id(found->second);
  if (!valid(id)) return std::nullopt;
  return id;
}

std::optional<CheckpointEntry> entry_of(const EntryText& text) {
  auto devices = DeviceSet::of(text.devices);
  auto allocation = allocation_of(text.response);
  if (text.uid.empty() || text.container.empty() || !devices || !allocation) return std::nullopt;
  return CheckpointEntry{.uid = PodUid(text.uid),
                         .container = text.container,
                         .devices = *std::move(devices),
                         .allocation = *std::move(allocation)};
}

// An entry that cannot be read does not prevent others from being read.
void read_entry(JsonValue& from, const std::string& resource, Checkpoint& checkpoint) {
  EntryText text;
  const std::string problem = from.try_read([&](JsonValue& value) {
    value.read({{"ResourceName", text.resource},
                {"PodUID", text.uid},
                {"ContainerName", text.container},
                {"DeviceIDs", [&](JsonValue& devices) { text.devices = read_devices(devices); }},
                {"AllocResp", text.response}});
  });
  if (!text.resource.empty() && text.resource != resource) return;
  auto entry = problem.empty() ? entry_of(text) : std::nullopt;
  if (entry) checkpoint.entries.push_back(*std::move(entry));
}

}  // namespace

Result<Checkpoint> parse_checkpoint(std::string_view json, const std::string& resource) {
  Checkpoint checkpoint;
  bool has_list = false;
  // RegisteredDevices, which lists every device of the node, is not read. kubelet writes null for
  // an empty list of entries.
  const auto read_entries = [&](JsonValue& list) {
    has_list = true;
    checkpoint = {};
    list.elements([&](JsonValue& entry) { read_entry(entry, resource, checkpoint); });
  };
  const auto read_data = [&](JsonValue& data) { data.read({{"PodDeviceEntries", read_entries}}); };
  const auto read = kube::read_json(json, [&](JsonValue& root) {
    root.read({{"Data", read_data}});
  });
  if (!read) return error("kubelet's checkpoint: " + read.error().message);
  if (!has_list) return error("kubelet's checkpoint has no list Data.PodDeviceEntries");
  return checkpoint;
}

Result<Checkpoint> read_checkpoint(const std::string& folder, const std::string& resource) {
  const std::string path = folder + "/kubelet_internal_checkpoint";
  const auto whole = read_file(path, kCheckpointBytesMax, "kubelet's checkpoint");
  if (!whole) return whole.error();
  return parse_checkpoint(*whole, resource);
}

}  // namespace mgpu::plugin
