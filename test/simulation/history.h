// One history of the simulated cluster: a plan is carried out step by step, and after each step the
// promises are checked. With an even seed the policies of deploy/manifests hold, so that
// no user writes what a binding writes. With an odd seed they do not, and the extender does not
// restart: a restarted one sees edited annotations only. With every fourth seed the extender has
// two replicas. One thread, one seed, no real time: the same plan and seed give the same history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "test/simulation/plan.h"

namespace mgpu::simulation {

struct Outcome {
  // The first broken promise, as one sentence; none: all were kept.
  std::optional<std::string> violation;
  Duration at{0};  // when it was broken
  int scheduling_cycles = 0;
  int groups = 0;          // that were created
  int groups_bound = 0;    // of which as many pods were bound as they need
  int evicted = 0;         // pods, by the extender
  int groups_in_part = 0;  // that are bound in part after a call about them was lost
  // Of all writes of pods. Equal for equal histories.
  std::uint64_t digest = 0;
};

// `folder` is empty or does not exist; it is removed at the end.
Outcome run_history(const std::vector<Event>& plan, std::uint64_t seed, const std::string& folder);

// The plan without the events that the violation does not need. Repeats the history up to
// `runs_max` times.
std::vector<Event> shrink(std::vector<Event> plan, std::uint64_t seed, const std::string& folder,
                          int runs_max);

}  // namespace mgpu::simulation
