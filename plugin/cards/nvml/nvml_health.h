// Derives the health of a card from XIDs and probes. Pure.
//
//   Healthy --XID that is not a program's fault, failed probe--> Unhealthy
//   Unhealthy --kGoodProbes good probes in a row--> Healthy
//
// Any further XID or failed probe restarts the count. After an XID that needs a reset, good probes
// only count if the driver reports recovery actions, or after a reset: the card did not respond, or
// the driver was released.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "plugin/cards/nvml/nvml_abi.h"

namespace mgpu::plugin::nvml {

// One probe of a card.
struct Probe {
  int code = kOk;                             // of a call that needs a response of the card itself
  std::string code_text;                      // NVML's text for `code`
  std::optional<unsigned> recovery_action{};  // none: the driver does not report it
  bool row_remap_failed = false;
  std::string not_ready{};  // why programs cannot use the card yet; empty: they can
};

class CardHealth {
 public:
  // XIDs of `ignored` do not affect health. Meanings: docs.nvidia.com/deploy/xid-errors.
  void note_xid(std::uint64_t xid, const std::set<std::uint64_t>& ignored);
  void note_probe(const Probe& probe);
  // The driver was released for a reset or for another driver: good probes suffice from now on.
  void note_release() { until_reset_ = false; }
  // kHealthy, or the reason why the card is unhealthy, in at most kCardTextMax bytes.
  std::string text() const;

 private:
  std::string reason_;  // empty: healthy
  bool until_reset_ = false;
  bool had_contained_ = false;
  int good_probes_ = 0;
};

}  // namespace mgpu::plugin::nvml
