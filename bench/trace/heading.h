// The settings that a report begins with. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mgpu::trace {

struct Heading {
  std::string trace;
  std::string policy;
  std::string workload;
  std::string ties;
  std::string non_gpu;
  std::string sampling;
  std::string order;
  std::string memory;
  std::size_t nodes = 0;
  std::int64_t cards = 0;
};

// {"trace", "policy", "workload", "ties", "non_gpu", "sampling", "order", "memory", "nodes",
// "cards"}
nlohmann::ordered_json json_of(const Heading& heading);
// One line that ends with "\n".
std::string text_of(const Heading& heading);

}  // namespace mgpu::trace
