// The seam to the cards of a node: NVML on one side (nvml_source.h), a file that describes cards on
// the other (cards_file.h). A card is known by its UUID; indices are bound to UUIDs elsewhere
// (card_index.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "plugin/allocation/edits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {

// What may be a UUID: it becomes part of paths, so that it has letters, digits, "-", "_" and "."
// alone, and does not start with ".".
bool is_card_uuid(std::string_view text);

struct FoundCard {
  CardUuid uuid;
  std::string model;
  MiB memory;
  std::string health = std::string(kHealthy);  // else why it is not offered: "XID 79", "MIG", ...
  std::optional<CardIndex> index{};            // what the cards file asks for; NVML: none
  std::vector<DeviceNode> nodes{};
  bool operator==(const FoundCard&) const = default;
};

struct FoundCards {
  std::vector<FoundCard> cards;
  Edits shared;  // for every container that has a card: control nodes, libraries
  bool operator==(const FoundCards&) const = default;
};

struct ProcessUse {
  std::int64_t pid = 0;              // in the node's pid namespace
  std::optional<MiB> memory;         // none: the driver does not say
  std::optional<double> sm_percent;  // of the whole card, 0..100; none: no sample
  bool operator==(const ProcessUse&) const = default;
};

struct CardUse {
  CardUuid uuid;
  std::optional<MiB> memory_used;     // of the whole card
  std::optional<double> sm_percent;   // of the whole card
  std::vector<ProcessUse> processes;  // at most kProcessesPerCardMax
};

// Functions may block for as long as a driver does, and are called by one thread at a time.
class CardSource {
 public:
  virtual ~CardSource() = default;

  // All cards as they are now, MIG-enabled and sick ones with their health. Errors: one sentence,
  // what was looked for and where; the caller keeps what it knew and asks again.
  virtual Result<FoundCards> read() = 0;
  // What runs on the cards now; cards without an answer are left out.
  virtual std::vector<CardUse> use() = 0;
  // Waits until something may have changed (an XID, the file), at most `timeout`. interrupt() ends
  // it.
  virtual void wait_for_change(std::chrono::milliseconds timeout) = 0;
  virtual void interrupt() = 0;  // any thread
  // "NVML 12.580 (driver 580.95.05)", "/etc/mgpu/cards.yaml"
  virtual std::string description() const = 0;
};

}  // namespace mgpu::plugin
