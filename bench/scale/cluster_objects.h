// A cluster of any size, as the API server would list it: objects of everyday length with all the
// members that an extender has to pass over.
//
// Of every four nodes one is full, one has half of each card taken, one has four of its cards
// taken, and one is empty: 8 pods of half a card for each node of 8 cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mgpu::bench {

inline constexpr std::size_t kCardsPerNode = 8;
inline constexpr std::int64_t kCardMemoryMiB = 81'559;
inline constexpr std::size_t kPodsPerNode = 8;  // in the mean
inline constexpr std::int64_t kPodCore = 50;
inline constexpr std::int64_t kPodMemoryMiB = 40'000;

std::string node_name(std::size_t number);

struct PodPlace {
  std::size_t node;
  std::size_t card;
};
PodPlace place_of_pod(std::size_t number);

// A node of 8 cards, some 4 KiB of JSON.
std::string node_object(std::size_t number);

// A running pod of half a card, some 4 KiB of JSON. The first 8 n pods are those of the first n
// nodes, where n is a multiple of four.
std::string pod_object(std::size_t number);

// One of them as a client sends it: only a server gives versions.
std::string as_created(const std::string& object);

}  // namespace mgpu::bench
