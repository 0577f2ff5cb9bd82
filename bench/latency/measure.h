// Measures round trips over one connection. The servers take turns after a few requests, so that
// other load on the machine affects all of them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/latency/requests.h"
#include "common/base/result.h"

namespace mgpu::bench {

struct Target {
  std::string name;
  std::uint16_t port = 0;
  std::string path;
};

struct Times {
  std::string name;
  std::vector<double> us;     // time of each request, ascending
  std::size_t bytes_in = 0;   // length of the last request
  std::size_t bytes_out = 0;  // length of its response

  // The smallest time that this part of the requests did not exceed. REQUIRES: 0 < part <= 1, and
  // there is at least one request.
  double percentile(double part) const;
};

// Sends `count` requests to each target after a warm-up. The results are in the order of `targets`.
Result<std::vector<Times>> measure(const std::vector<Target>& targets, Requests& requests,
                                   std::size_t count);

}  // namespace mgpu::bench
