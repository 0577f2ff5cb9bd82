#include "plugin/allocation/edits.h"

#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace mgpu::plugin {

namespace {

std::string joined_uuids(const Record& record) {
  std::string joined;
  for (const CardGrant& card : record.cards)
    joined += (joined.empty() ? "" : ",") + card.uuid.str();
  return joined;
}

std::string joined_indices(const Record& record) {
  std::vector<CardIndex> indices;
  for (const CardGrant& card : record.cards) indices.push_back(card.index);
  return indices.empty() ? std::string() : format_card_indices(indices);
}

MiB total_memory(const Record& record) {
  MiB total;
  for (const CardGrant& card : record.cards) total += card.share.memory;
  return total;
}

}  // namespace

Environment environment_of(const Record& record) {
  return {{"MGPU_ALLOCATION", record.id.str()},
          {"MGPU_DEVICES_HASH", record.devices.hash()},
          {"MGPU_CORE_PERCENT", std::to_string(record.devices.size())},
          {"NVIDIA_VISIBLE_DEVICES", "void"}};
}

Environment environment_of_cards(const Record& record) {
  return {{"MGPU_CARDS", joined_indices(record)},
          {"MGPU_CARD_UUIDS", joined_uuids(record)},
          {"MGPU_MEMORY_MIB", std::to_string(total_memory(record).value())}};
}

Edits container_edits(const Record& record, std::vector<DeviceNode> nodes) {
  Edits edits{.devices = std::move(nodes), .mounts = {}, .environment = environment_of(record)};
  Environment of_cards = environment_of_cards(record);
  edits.environment.merge(of_cards);  // leaves in `of_cards` what both have
  MGPU_CHECK(of_cards.empty(), "what Allocate says and what PreStart says have different names");
  return edits;
}

std::string cdi_kind(const Contract& contract) {
  return contract.domain + "/mgpu";
}

std::string cdi_name(const Contract& contract, const AllocationId& id) {
  return cdi_kind(contract) + "=" + id.str();
}

}  // namespace mgpu::plugin
