// Finds the supply prices at which the nodes would pack as many pods of each class as are expected.
//
// Expected supply: N_c = p_c * T pods, T = kHorizon * idle GPUs / mean GPUs of a pod, and no more
// than card memory allows. For classes of several cards it is multiplied by
// (1 + kSafety / sqrt(pods of that many cards)), since few are expected and each needs free cards.
//
// In one round, tables are built from the prices, and the packing that they imply for every node,
// at the pair of prices with its least bound, gives x_c pods of each class. Then
//
//   s_c += step * (1 - 0.8 * round / rounds) * g_c * clip((x_c - N_c) * g_c / idle, -1, 1)
//
// within 0 .. g_c. The result is the mean of the last half of the rounds (subgradient steps on the
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
inline constexpr Refinement kOnline{40, 0.1F};         // from earlier prices
inline constexpr Refinement kFromNothing{1000, 0.3F};  // without earlier prices
// The first prices of a process, in use until those of kFromNothing are complete.
inline constexpr Refinement kQuickStart{60, 0.3F};

inline constexpr double kHorizon = 0.95;
inline constexpr double kSafety = 2;

// Called before each round; false ends the refinement with the prices found so far.
using GoOn = std::function<bool()>;

// Where `start` has fewer prices than the workload has classes, the others start at 0.
Prices refine(
    const Workload& workload, const Kinds& kinds, std::span<const NodeRoom> nodes, Prices start,
    const Refinement& how, const GoOn& go_on = [] { return true; });

// Prices of `from` for the classes of `to`: the price of the same class, else the mean of the
// classes that request the same number and part of cards, else 0.
Prices carried_over(const Workload& from, const Prices& prices, const Workload& to);

}  // namespace mgpu::extender
