// A simple extender for comparison. It parses the whole request into a tree, checks every card of
// every node with the same rules, and builds the response as a tree. Its cluster is that of
// bench/scale and never changes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/latency/cluster_feed.h"

namespace mgpu::bench {

// Constant after construction.
class NaiveExtender {
 public:
  explicit NaiveExtender(ClusterSize size);

  // REQUIRES: `body` is a request of the class Requests.
  std::string filter(const std::string& body) const;
  std::string prioritize(const std::string& body) const;

 private:
  struct Amount {
    std::int64_t core = 0;
    std::int64_t memory = 0;
  };
  using Cards = std::vector<Amount>;  // the used amount of each card

  static bool place(Cards& used, const std::vector<Amount>& containers);
  static double fill(const Cards& used);
  static std::vector<Amount> containers_of(const nlohmann::json& pod);

  std::unordered_map<std::string, Cards> nodes_;
};

}  // namespace mgpu::bench
