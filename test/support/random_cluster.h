// Small random nodes, requests and candidates for comparisons with brute force. They depend on the
// seed only. There are few different amounts, so that exact fits and ties are common.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/preemption/preemption.h"

namespace mgpu::test {

class RandomCluster {
 public:
  explicit RandomCluster(std::uint64_t seed) : random_(seed) {}

  // 0 .. most_cards cards, some of them used, overfull, expected, unhealthy or uncertain.
  extender::Node node(int most_cards);
  // 1 .. most_containers containers of every kind; some with a selector.
  GpuRequest request(int most_containers, int most_cards);
  // Pods with a part of the used shares of the node.
  std::vector<extender::Candidate> candidates(const extender::Node& node, int most);

  // 0 .. below - 1
  int number(int below);
  bool one_in(int chances) { return number(chances) == 0; }

 private:
  extender::Card card(int index);
  ContainerRequest container(int most_cards);
  Share share();

  std::mt19937_64 random_;
};

}  // namespace mgpu::test
