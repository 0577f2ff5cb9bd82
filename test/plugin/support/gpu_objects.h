// Cards, devices, pods and kubelet's checkpoint, as small as they can be, for the tests of the
// device plugin. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/card_source.h"
#include "test/plugin/support/resource_names.h"

namespace mgpu::test {

using namespace plugin;

inline constexpr std::int64_t kCardMemory = 32'510;

const Contract& contract();

// "GPU-<n>" with the node /dev/nvidia<n>.
FoundCard found_card(int n, const std::string& health = std::string(kHealthy));
// Cards 0 .. count - 1, healthy.
FoundCards found_cards(int count);
CardFacts card_facts(int index, const std::string& health = std::string(kHealthy));

std::vector<std::string> device_ids(std::int64_t count, std::int64_t first = 0);
// What Allocate makes.
Record allocated(const std::vector<std::string>& ids, const std::string& nonce);
// Started as container "main" of pod ml/`pod`, whose uid is "uid-<pod>", on card `index`.
Record started(Record record, const std::string& pod, int index);

struct GpuContainer {
  std::string name = "main";
  std::int64_t core = 0;  // 0: asks for no cards
  std::int64_t memory = 0;
  std::string cards{};  // of its annotation; empty: has none
  bool init = false;
};

// A pod of namespace ml that the extender has bound to node n1.
std::string gpu_pod_json(const std::string& name, const std::vector<GpuContainer>& containers);
// The same as a value, with the uid "uid-<name>".
kube::Pod gpu_pod(const std::string& name, const std::vector<GpuContainer>& containers);

// An entry of kubelet's checkpoint; an empty allocation: its answer was another plugin's.
struct CheckpointLine {
  std::string uid;
  std::string container;
  std::vector<std::string> ids;
  std::string allocation;
};
// Writes kubelet's file into its folder.
void write_checkpoint(const std::string& folder, const std::vector<CheckpointLine>& lines);

// Adds a process of a container of the pod to the folder, which takes the place of /proc.
void add_process(const std::string& proc_folder, int pid, const PodUid& uid);
void remove_process(const std::string& proc_folder, int pid);

}  // namespace mgpu::test
