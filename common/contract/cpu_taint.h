// When the free cards of a node need its free CPU: then mgpu-device-plugin taints the node with
// <domain>/mgpu-needs-cpu:PreferNoSchedule, and kube-scheduler prefers other nodes for pods without
// cards.
//
// The limit was found by simulation: with 24 cores for each free card, the openb traces allocate as
// much as with a policy that ranks all nodes for pods without cards, except where CPU is short
// (bench/PLACEMENT.md). Pure.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace mgpu {

inline constexpr std::int64_t kMilliCpuPerFreeCard = 24'000;

// `milli_cpu` and `core`: what is free of the CPU and of all cards together.
constexpr bool cards_need_cpu(std::int64_t milli_cpu, Percent core) {
  constexpr std::int64_t kPercentOfCard = 100;
  return milli_cpu * kPercentOfCard < kMilliCpuPerFreeCard * core.value();
}

}  // namespace mgpu
