// What was measured, as a table for people and as JSON for plots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mgpu::bench {

struct Row {
  std::string name;  // "extender", "echo", "naive"
  std::size_t nodes = 0;
  std::string verb;
  std::string form;  // "names", "names, 2 containers", "nodes"; of bind what is timed
  std::string load;  // "steady", "changing"; of bind the rate
  std::size_t threads = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  std::size_t requests = 0;
  std::size_t bytes_in = 0;
  std::size_t bytes_out = 0;
  double ratio_to_echo = 0;  // of the medians; 1 for the echo
};

std::string table_head();
// One line, without its end.
std::string table_line(const Row& row);
// An array of objects whose members are named as Row's.
std::string to_json(const std::vector<Row>& rows);

}  // namespace mgpu::bench
