// A cluster of any size, as the API server would list it: objects of everyday length with all the
// members that an extender has to pass over.
#pragma once

#include <cstddef>
#include <string>

namespace mgpu::bench {

inline constexpr std::size_t kCardsPerNode = 8;

// A node of 8 cards of 81,559 MiB, some 4 KiB of JSON.
std::string node_object(std::size_t number);

// A running pod of half a card, some 4 KiB of JSON; pods 0..15 fill node 0, and so on.
std::string pod_object(std::size_t number);

}  // namespace mgpu::bench
