// Bounds of the search for cards, with their reasons.
//
// The unit is one step, which is the time to examine one card: some 20 ns. Everything that a
// decision does is charged by what it costs in this unit, so that a bound in steps is one in time,
// within a factor of a few.
#pragma once

#include <cstdint>

namespace mgpu::extender {

// Steps of one search on one node, for pods of several containers: 2 ms. Most pods need fewer than
// a few hundred steps.
inline constexpr std::uint32_t kPlacementStepsMax = 100'000;
// The same for all nodes of one filter together, of which the ledger is locked for kHoldStepsMax at
// a time: 0.1 s. A pod of four containers takes some 2,000,000 on 15,000 nodes of 8 cards.
inline constexpr std::uint32_t kFilterStepsMax = 4'000'000;
// The same for all nodes of one call of preempt: 0.1 s. kube-scheduler proposes 100 nodes, or a
// tenth of them; those that are left when the steps are taken are not answered.
inline constexpr std::uint32_t kPreemptionStepsMax = 4'000'000;
// The same for the scores of all nodes: 0.2 s. By a policy with prices, a pod of four containers
// takes some 7,000,000 on 5,000 nodes of 8 cards.
inline constexpr std::uint32_t kScoreStepsMax = 10'000'000;
// Steps of one search for the best connected cards: 1 ms. Any 8 of 16 cards take some 40,000.
inline constexpr std::uint32_t kLinkStepsMax = 60'000;
// Links that are read in the time of a step.
inline constexpr std::size_t kLinksPerStep = 8;
// Steps to explain why one card is not enough for one container: a sentence of 1 us.
inline constexpr std::uint32_t kExplainedCardSteps = 50;
// The texts of selector, affinity and tolerations of a pod that are compared with nodes: 10 us for
// a node. A tenant may write a megabyte of them.
inline constexpr std::size_t kNodeRuleTextsMax = 256;

}  // namespace mgpu::extender
