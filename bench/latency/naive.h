// The extender that one would write first, to compare with: it reads the whole request into a tree,
// goes over every node and every card with the same rules of what fits, and writes a tree as the
// answer. Its cluster is that of bench/scale, and never changes.
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

  // REQUIRES: a request as Requests makes it.
  std::string filter(const std::string& body) const;
  std::string prioritize(const std::string& body) const;

 private:
  struct Amount {
    std::int64_t core = 0;
    std::int64_t memory = 0;
  };
  using Cards = std::vector<Amount>;  // what is used of each

  static bool place(Cards& used, const std::vector<Amount>& containers);
  static double fill(const Cards& used);
  static std::vector<Amount> containers_of(const nlohmann::json& pod);

  std::unordered_map<std::string, Cards> nodes_;
};

}  // namespace mgpu::bench
