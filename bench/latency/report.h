// The results as a table, and as JSON for plots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mgpu::bench {

struct Row {
  std::string name;  // "extender", "echo", "naive"
  std::size_t nodes = 0;
  std::string verb;
  std::string form;  // "names", "names, 2 containers", "nodes"; for bind what is measured
  std::string load;  // "steady", "changing"; for bind the rate
  std::size_t threads = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  std::size_t requests = 0;
  std::size_t bytes_in = 0;
  std::size_t bytes_out = 0;
  double ratio_to_echo = 0;  // ratio of the medians; 1 for the echo server
};

std::string table_head();
// One line without a line end.
std::string table_line(const Row& row);
// An array of objects with the same member names as Row.
std::string to_json(const std::vector<Row>& rows);

}  // namespace mgpu::bench
