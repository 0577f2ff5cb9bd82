#include "plugin/allocation/edits.h"

#include <utility>

#include "common/base/check.h"

namespace mgpu::plugin {

Environment environment_of(const Record& record) {
  // "void": otherwise NVIDIA's runtime gives the container the cards that its image names.
  return {{"MGPU_ALLOCATION", record.id.str()},
          {"MGPU_DEVICES_HASH", record.devices.hash()},
          {"MGPU_CORE_PERCENT", std::to_string(record.devices.size())},
          {"NVIDIA_VISIBLE_DEVICES", "void"}};
}

Environment environment_of_cards(const Record& record) {
  std::vector<CardIndex> indices;
  std::string uuids;
  MiB memory;
  for (const CardGrant& card : record.cards) {
    indices.push_back(card.index);
    uuids += (uuids.empty() ? "" : ",") + card.uuid.str();
    memory += card.share.memory;
  }
  return {{"MGPU_CARDS", indices.empty() ? "" : format_card_indices(indices)},
          {"MGPU_CARD_UUIDS", uuids},
          {"MGPU_MEMORY_MIB", std::to_string(memory.value())}};
}

Edits container_edits(const Record& record, std::vector<DeviceNode> nodes) {
  Edits edits{.devices = std::move(nodes), .mounts = {}, .environment = environment_of(record)};
  Environment of_cards = environment_of_cards(record);
  edits.environment.merge(of_cards);  // leaves in `of_cards` what both have
  MGPU_CHECK(of_cards.empty(), "Allocate and PreStart set different variables");
  return edits;
}

std::string cdi_kind(const Contract& contract) {
  return contract.domain + "/mgpu";
}

std::string cdi_name(const Contract& contract, const AllocationId& id) {
  return cdi_kind(contract) + "=" + id.str();
}

}  // namespace mgpu::plugin
