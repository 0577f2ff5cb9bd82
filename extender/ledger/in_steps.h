// Long changes of the ledger in steps of kRelistStep, so that others take its lock in between.
// `hold` runs a step under the lock; the analysis cannot see that it is the one that is required.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {

// Calls `apply` for each of `all`.
template <class T, class Hold, class Apply>
void in_steps(std::vector<T>& all, Hold hold, Apply apply) {
  for (std::size_t begin = 0; begin < all.size(); begin += kRelistStep) {
    const std::size_t end = std::min(all.size(), begin + kRelistStep);
    hold([&]() MGPU_NO_THREAD_ANALYSIS {
      for (std::size_t i = begin; i < end; ++i) apply(std::move(all[i]));
    });
  }
}

// Calls `visit` with each element of the map, which may erase it. Between the steps anything may be
// added and erased.
template <class Map, class Hold, class Visit>
void each_in_steps(Map& map, Hold hold, Visit visit) {
  std::optional<typename Map::key_type> last;
  bool done = false;
  while (!done) {
    hold([&]() MGPU_NO_THREAD_ANALYSIS {
      auto at = last ? map.upper_bound(*last) : map.begin();
      for (std::size_t i = 0; i < kRelistStep && at != map.end(); ++i) {
        last = at->first;
        visit(*at++);
      }
      done = at == map.end();
    });
  }
}

}  // namespace mgpu::extender
