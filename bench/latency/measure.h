// Round trips of one connection, timed: servers take turns, a few requests each, so that what else
// the machine does meets all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/latency/requests.h"
#include "common/base/result.h"

namespace mgpu::bench {

struct Contestant {
  std::string name;
  std::uint16_t port = 0;
  std::string path;
};

struct Times {
  std::string name;
  std::vector<double> us;     // of each request, ascending
  std::size_t bytes_in = 0;   // of the last request's body
  std::size_t bytes_out = 0;  // of its answer's

  // 0 < part <= 1: the least time that so many of the requests did not exceed. REQUIRES: some.
  double percentile(double part) const;
};

// `count` to each, after some that are not counted. In the order given.
Result<std::vector<Times>> measure(const std::vector<Contestant>& contestants, Requests& requests,
                                   std::size_t count);

}  // namespace mgpu::bench
