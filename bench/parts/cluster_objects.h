// A cluster of any size, as an API server lists it. The objects have a typical length, and members
// that an extender has to skip.
//
// Of every four nodes one is full, one has half of each card used, one has four of its cards used,
// and one is empty. There are 8 pods with half a card for each node with 8 cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mgpu::bench {

inline constexpr std::size_t kCardsPerNode = 8;
inline constexpr std::int64_t kCardMemoryMiB = 81'559;
inline constexpr std::size_t kPodsPerNode = 8;  // on average
inline constexpr std::int64_t kPodCore = 50;
inline constexpr std::int64_t kPodMemoryMiB = 40'000;

std::string node_name(std::size_t number);

struct PodLocation {
  std::size_t node;
  std::size_t card;
};
PodLocation location_of_pod(std::size_t number);

// A node with 8 cards, about 4 KiB of JSON.
std::string node_object(std::size_t number);

// A running pod with half a card, about 4 KiB of JSON. The first 8 n pods are on the first n nodes
// if n is a multiple of four.
std::string pod_object(std::size_t number);

}  // namespace mgpu::bench
