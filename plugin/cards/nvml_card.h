// What NVML says of one card. Functions may block for as long as the driver does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/cards/card_source.h"
#include "plugin/cards/nvml_health.h"
#include "plugin/cards/nvml_library.h"

namespace mgpu::plugin::nvml {

// Empty where NVML does not say, or says what cannot be a UUID.
CardUuid uuid_of(const Library& library, Device device);

struct CardReading {
  std::string model;              // empty: not told
  std::optional<MiB> memory;      // none: not told
  std::optional<unsigned> minor;  // N of /dev/nvidiaN
  bool mig = false;               // enabled, or will be after the next reset
  Probe probe;
};
CardReading read_card(const Library& library, Device device);

// None where the card does not answer. `seen_us` is the time of the newest sample known; it moves
// on.
std::optional<CardUse> read_use(const Library& library, Device device, const CardUuid& uuid,
                                std::uint64_t& seen_us);

}  // namespace mgpu::plugin::nvml
