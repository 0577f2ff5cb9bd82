// Finds the supply prices at which the nodes would pack as many pods of each class as will come.
//
// Future supply: N_c = p_c * T pods, T = kHorizon * idle GPUs / mean GPUs of a pod, and no more
// than card memory allows where pods ask for more of it; classes of several cards times
// (1 + kSafety / sqrt(pods of that many cards)), since few come and each must find its cards.
// One round: tables from the prices; every node takes the pair of prices at which its bound is the
// least, and the packing that the tables imply there is read off, x_c pods of each class; then
//
//   s_c += step * (1 - 0.8 * round / rounds) * g_c * clip((x_c - N_c) * g_c / idle, -1, 1)
//
// within 0 .. g_c. The mean of the last half of the rounds is the answer (subgradient steps on the
// dual of the packing problem; Polyak, "Minimization of unsmooth functionals", 1969). Pure.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "extender/pricing/node_room.h"
#include "extender/pricing/prices.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

struct Refinement {
  int rounds = 40;
  float step = 0.1F;
};
// From the prices of another moment; from nothing.
inline constexpr Refinement kOnline{40, 0.1F};
inline constexpr Refinement kFromNothing{1000, 0.3F};
// Good enough to decide by until there are better ones.
inline constexpr Refinement kQuickStart{60, 0.3F};

inline constexpr double kHorizon = 0.95;
inline constexpr double kSafety = 2;

// Asked before each round; false ends the refinement where it is.
using GoOn = std::function<bool()>;

// `start` may have fewer prices than the workload has classes: the others start at 0.
Prices refine(
    const Workload& workload, const Kinds& kinds, std::span<const NodeRoom> nodes, Prices start,
    const Refinement& how, const GoOn& go_on = [] { return true; });

// Prices of `from` for the classes of `to`: those of the same class, else the mean of the classes
// that ask for as much of as many cards, else 0.
Prices carried_over(const Workload& from, const Prices& prices, const Workload& to);

}  // namespace mgpu::extender
