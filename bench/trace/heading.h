// What a report says of the runs it is about, first of all. Pure.
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
  std::string plain;
  std::string memory;
  std::size_t nodes = 0;
  std::int64_t cards = 0;
};

// {"trace", "policy", "workload", "ties", "plain", "memory", "nodes", "cards"}
nlohmann::ordered_json json_of(const Heading& heading);
// One line, with its end.
std::string text_of(const Heading& heading);

}  // namespace mgpu::trace
