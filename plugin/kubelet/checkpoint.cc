#include "plugin/kubelet/checkpoint.h"

#include <deviceplugin.pb.h>

#include <optional>

#include "common/base/files.h"
#include "common/kube/base64.h"
#include "common/kube/json_tree.h"
#include "common/text.h"
#include "plugin/limits.h"

namespace mgpu::kubelet {
namespace {

using kube::JsonNode;
using Kind = JsonNode::Kind;

// RegisteredDevices lists every device of the node, and is not read.
bool wanted(std::size_t depth, std::string_view name) {
  if (depth == 1) return name == "Data";
  return depth != 2 || name == "PodDeviceEntries";
}

// The member of that kind, or null. The last of equal names counts, as in Go.
const JsonNode* member(const JsonNode& object, std::string_view name, Kind kind) {
  for (auto child = object.children.rbegin(); child != object.children.rend(); ++child) {
    if (child->name == name) return child->kind == kind ? &*child : nullptr;
  }
  return nullptr;
}

const std::string* text(const JsonNode& object, std::string_view name) {
  const JsonNode* found = member(object, name, Kind::kString);
  return found == nullptr || found->text.empty() ? nullptr : &found->text;
}

// False: something else than text is among them.
bool add_texts(const JsonNode& array, std::vector<std::string>& texts) {
  for (const JsonNode& child : array.children) {
    if (child.kind != Kind::kString) return false;
    texts.push_back(child.text);
  }
  return true;
}

std::optional<allocation::DeviceSet> devices_of(const JsonNode& entry) {
  std::vector<std::string> ids;
  if (const JsonNode* list = member(entry, "DeviceIDs", Kind::kArray)) {
    if (!add_texts(*list, ids)) return std::nullopt;
  } else if (const JsonNode* nodes = member(entry, "DeviceIDs", Kind::kObject)) {
    for (const JsonNode& node : nodes->children) {
      if (node.kind == Kind::kNull) continue;  // a nil slice of Go
      if (node.kind != Kind::kArray || !add_texts(node, ids)) return std::nullopt;
    }
  }
  auto devices = allocation::DeviceSet::of(ids);
  if (!devices) return std::nullopt;
  return *std::move(devices);
}

// Empty: the answer is not ours. None: it cannot be read.
std::optional<allocation::AllocationId> allocation_of(const JsonNode& entry) {
  const std::string* encoded = text(entry, "AllocResp");
  if (encoded == nullptr) return allocation::AllocationId();
  const auto bytes = kube::decode_base64(*encoded);
  v1beta1::ContainerAllocateResponse response;
  if (!bytes || !response.ParseFromString(*bytes)) return std::nullopt;
  const auto found = response.envs().find("MGPU_ALLOCATION");
  if (found == response.envs().end()) return allocation::AllocationId();
  allocation::AllocationId id(found->second);
  if (!allocation::valid(id)) return std::nullopt;
  return id;
}

std::optional<CheckpointEntry> read_entry(const JsonNode& entry) {
  const std::string* uid = text(entry, "PodUID");
  const std::string* container = text(entry, "ContainerName");
  auto devices = devices_of(entry);
  auto allocation = allocation_of(entry);
  if (uid == nullptr || container == nullptr || !devices || !allocation) return std::nullopt;
  return CheckpointEntry{.uid = PodUid(*uid),
                         .container = *container,
                         .devices = *std::move(devices),
                         .allocation = *std::move(allocation)};
}

// kubelet writes null for no entries.
Result<const JsonNode*> entries_of(const JsonNode& root) {
  const JsonNode* content =
      root.kind == Kind::kObject ? member(root, "Data", Kind::kObject) : nullptr;
  if (content == nullptr) return error("kubelet's checkpoint has no object Data");
  if (member(*content, "PodDeviceEntries", Kind::kNull) != nullptr) return nullptr;
  if (const auto* list = member(*content, "PodDeviceEntries", Kind::kArray)) return list;
  return error("kubelet's checkpoint has no list Data.PodDeviceEntries");
}

}  // namespace

Result<Checkpoint> parse_checkpoint(std::string_view json, const std::string& resource) {
  const auto root = kube::parse_json(json, wanted);
  if (!root) return error("kubelet's checkpoint: " + root.error().message);
  const auto entries = entries_of(*root);
  if (!entries) return entries.error();
  Checkpoint checkpoint;
  if (*entries == nullptr) return checkpoint;
  for (const JsonNode& node : (*entries)->children) {
    const std::string* of = node.kind == Kind::kObject ? text(node, "ResourceName") : nullptr;
    if (of != nullptr && *of != resource) continue;
    auto entry = of == nullptr ? std::nullopt : read_entry(node);
    if (entry) checkpoint.entries.push_back(*std::move(entry));
    if (!entry) ++checkpoint.unreadable;
  }
  return checkpoint;
}

Result<Checkpoint> read_checkpoint(const std::string& folder, const std::string& resource) {
  const std::string path = folder + "/kubelet_internal_checkpoint";
  const auto whole = read_file(path, limits::kCheckpointBytesMax, "kubelet's checkpoint");
  if (!whole) return whole.error();
  return parse_checkpoint(*whole, resource);
}

}  // namespace mgpu::kubelet
