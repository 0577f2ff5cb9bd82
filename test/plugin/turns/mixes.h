// Random mixes of programs on a card, and what is due to each of them.
#pragma once

#include <vector>

#include "plugin/turns/turns.h"
#include "test/plugin/turns/card_model.h"

namespace mgpu::plugin::model {

struct Tenant {
  double share;
  Program program;
  bool saturates;  // always has work for the card
  std::uint64_t seed;
};

// Draws two to five programs and their shares.
std::vector<Tenant> random_mix(std::uint64_t seed);

// What a program does without others: parts of the time.
struct Alone {
  double busy;
  double held;  // also gaps that are too short for anybody else
};

// `begin` and `end` are the time that is measured.
Alone alone(const Tenant& tenant, Time begin, Time end);

// Deals a moment: each gets of the time that it can hold its share at least, and what is left by
// share, up to what it can hold or, with fixed shares, to its share. `on` says who does something.
std::vector<double> due(const std::vector<Tenant>& mix, const std::vector<Alone>& alones,
                        const std::vector<bool>& on, TurnRule rule);

}  // namespace mgpu::plugin::model
