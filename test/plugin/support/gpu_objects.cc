#include "test/plugin/support/gpu_objects.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/kube/objects/object_json.h"
#include "test/support/base64.h"

namespace mgpu::test {

using namespace plugin;

namespace {

using Json = nlohmann::json;

// A ContainerAllocateResponse whose environment is MGPU_ALLOCATION: tags and lengths below 128.
std::string allocate_response(const std::string& allocation) {
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  if (allocation.empty()) return {};
  return field(0x0a, field(0x0a, "MGPU_ALLOCATION") + field(0x12, allocation));
}

Json container_json(const GpuContainer& container) {
  Json limits = Json::object();
  if (container.core > 0) limits[kCore] = std::to_string(container.core);
  if (container.memory > 0) limits[kMemory] = std::to_string(container.memory);
  return {{"name", container.name},
          {"image", "example.com/app"},
          {"resources", {{"limits", limits}, {"requests", limits}}}};
}

}  // namespace

const Contract& contract() {
  static const Contract made = Contract::for_domain(kDefaultResourceDomain).value();
  return made;
}

FoundCard found_card(int n, const std::string& health) {
  const std::string node = "/dev/nvidia" + std::to_string(n);
  return {.uuid = CardUuid("GPU-" + std::to_string(n)),
          .model = "V100",
          .memory = MiB(kCardMemory),
          .health = health,
          .nodes = {{node, node}}};
}

FoundCards found_cards(int count) {
  FoundCards found;
  for (int n = 0; n < count; ++n) found.cards.push_back(found_card(n));
  return found;
}

CardFacts card_facts(int index, const std::string& health) {
  return {CardIndex(index), CardUuid("GPU-" + std::to_string(index)), "V100", MiB(kCardMemory),
          health};
}

std::vector<std::string> device_ids(std::int64_t count, std::int64_t first) {
  std::vector<std::string> ids;
  for (std::int64_t n = first; n < first + count; ++n) {
    ids.push_back(core_device_id(n));
  }
  return ids;
}

Record allocated(const std::vector<std::string>& ids, const std::string& nonce) {
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.id = allocation_id(record.devices, nonce);
  return record;
}

Record started(Record record, const std::string& pod, int index) {
  record.owner = Owner{{"ml", pod}, PodUid("uid-" + pod), "main"};
  record.cards = {{CardIndex(index),
                   CardUuid("GPU-" + std::to_string(index)),
                   {Percent(record.devices.size()), MiB(1'000)}}};
  return record;
}

std::string gpu_pod_json(const std::string& name, const std::vector<GpuContainer>& containers) {
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", name}, {"namespace", "ml"}}},
              {"spec", {{"nodeName", "n1"}, {"containers", Json::array()}}}};
  Json& annotations = pod["metadata"]["annotations"] = Json::object();
  for (const GpuContainer& container : containers) {
    pod["spec"][container.init ? "initContainers" : "containers"].push_back(
        container_json(container));
    if (container.cards.empty()) continue;
    annotations[contract().assumed] = "true";
    annotations[contract().index_key(container.name)] = container.cards;
  }
  return pod.dump();
}

kube::Pod gpu_pod(const std::string& name, const std::vector<GpuContainer>& containers) {
  kube::Pod pod = kube::read_pod(gpu_pod_json(name, containers)).value();
  pod.metadata.uid = "uid-" + name;
  return pod;
}

void add_process(const std::string& proc_folder, int pid, const PodUid& uid) {
  const std::string folder = proc_folder + "/" + std::to_string(pid);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/cgroup")
      << "0::/kubepods/burstable/pod" << uid.str() << "/" << std::string(64, 'c') << "\n";
}

void remove_process(const std::string& proc_folder, int pid) {
  std::filesystem::remove_all(proc_folder + "/" + std::to_string(pid));
}

void write_checkpoint(const std::string& folder, const std::vector<CheckpointLine>& lines) {
  Json entries = Json::array();
  for (const CheckpointLine& line : lines) {
    entries.push_back({{"PodUID", line.uid},
                       {"ContainerName", line.container},
                       {"ResourceName", kCore},
                       {"DeviceIDs", {{"-1", line.ids}}},
                       {"AllocResp", encode_base64(allocate_response(line.allocation))}});
  }
  const Json checkpoint = {{"Data", {{"PodDeviceEntries", entries}}}, {"Checksum", 1}};
  std::ofstream(folder + "/kubelet_internal_checkpoint") << checkpoint.dump();
}

}  // namespace mgpu::test
