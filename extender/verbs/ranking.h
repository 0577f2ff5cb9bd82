// The candidates of a request in the order of the pod's policy.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extender/ledger/decision_cache.h"
#include "extender/ledger/ledger.h"
#include "extender/placement/context.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

// Thread-safe as far as the ledger is: ranks by a copy of its decisions.
class Ranking {
 public:
  // The names must outlive the ranking.
  Ranking(const VerbContext& context, std::span<const std::string_view> names,
          const PodRequest& pod, const PriceSnapshot* price_snapshot, Instant now);

  // Returns the scores in the order of the request.
  const std::vector<Scored>& nodes() const { return nodes_; }
  std::size_t fitting() const;
  // The best node that fits, and of several the first in the pod's TieOrder; nothing if none fits.
  std::optional<std::size_t> best() const;
  // The best nodes that fit, at most `count`, in the order of the request.
  std::vector<std::size_t> best(std::size_t count) const;

 private:
  void put_last(const std::vector<std::string>& avoided);
  bool before(std::size_t a, std::size_t b) const;

  std::span<const std::string_view> names_;
  std::vector<Scored> nodes_;
  TieOrder ties_;
};

}  // namespace mgpu::extender
