// What containers held and used of cards in a time: the facts of `kubectl mgpu waste`. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

// A container on one card. Hours of a card count the part that was held: 30 % of a card for ten
// hours is three.
struct MeasuredShare {
  PodRef pod{};
  std::string container{};
  std::string uuid{};        // of the card
  std::string owner_kind{};  // "Deployment"; empty: not known
  std::string owner{};
  double core = 0;    // granted, percent of the card
  double memory = 0;  // granted, MiB
  double granted_hours = 0;
  std::optional<double> used_hours{};  // while it was measured; not set: it never was
  double measured_hours = 0;           // the time that is known, by the clock
  std::int64_t samples = 0;
  std::optional<double> memory_peak{};  // MiB
  std::optional<double> core_p95{};     // percent of the whole card
};

struct UseFacts {
  std::vector<MeasuredShare> shares{};
  Time since{};
  Time until{};
  std::chrono::seconds step{};
  std::vector<std::string> problems{};
};

}  // namespace mgpu::kubectl
