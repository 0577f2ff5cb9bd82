// Reads one card through NVML. Functions may block for as long as the driver does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/cards/card_source.h"
#include "plugin/cards/nvml/nvml_health.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::plugin::nvml {

// Empty if NVML does not return a valid UUID.
CardUuid uuid_of(const Library& library, Device device);

struct CardReading {
  std::string model;                                    // empty: unknown
  std::optional<MiB> memory;                            // that programs can allocate; none: unknown
  bool unified = false;                                 // it has no memory of its own
  std::optional<unsigned> minor;                        // N of /dev/nvidiaN
  bool mig = false;                                     // enabled, or will be after the next reset
  std::optional<ComputeCapability> compute_capability;  // none: unknown
  std::optional<unsigned> compute_mode;                 // none: unknown
  Probe probe;
};
CardReading read_card(const Library& library, Device device);

// A MIG device of a card.
struct InstanceReading {
  std::string model;          // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"; empty: unknown
  std::optional<MiB> memory;  // as that of a card
  // "gi3", "gi3/ci0": those of its files below gpu<minor> in nvidia-caps. Empty: not known.
  std::vector<std::string> parts{};
  std::string problem;  // why it cannot be used; empty: it can
};
// Handles of the MIG devices of a card, at most kCardsPerNodeMax. Empty: it has none, or the driver
// is too old for them.
std::vector<Device> instances_of(const Library& library, Device card);
InstanceReading read_instance(const Library& library, Device instance);

// None if the card does not respond. `seen_us` is the time of the newest sample read so far; it is
// advanced, and starts again at 0 if the clock has gone back by more than a minute.
std::optional<CardUse> read_use(const Library& library, Device device, const CardUuid& uuid,
                                std::uint64_t& seen_us);

}  // namespace mgpu::plugin::nvml
