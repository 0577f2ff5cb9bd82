#include "extender/bind/posted_bindings.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

PostedBinding& PostedBindings::add(ClaimId claim, const PodUid& uid, PostedBinding binding) {
  const auto [posted, is_new] = by_claim_.try_emplace(claim, Posted{uid, std::move(binding)});
  MGPU_CHECK(is_new, "a claim has one binding");
  by_uid_.emplace(uid, claim);
  MGPU_CHECK(by_uid_.size() == by_claim_.size(), "each binding is found by claim and by uid");
  return posted->second.binding;
}

PostedBinding& PostedBindings::at(ClaimId claim) {
  const auto posted = by_claim_.find(claim);
  MGPU_CHECK(posted != by_claim_.end(), "the claim has a binding");
  return posted->second.binding;
}

void PostedBindings::erase(ClaimId claim) {
  const auto posted = by_claim_.find(claim);
  if (posted == by_claim_.end()) return;
  const auto [first, last] = by_uid_.equal_range(posted->second.uid);
  by_uid_.erase(
      std::find_if(first, last, [claim](const auto& one) { return one.second == claim; }));
  by_claim_.erase(posted);
  MGPU_CHECK(by_uid_.size() == by_claim_.size(), "each binding is found by claim and by uid");
}

void PostedBindings::erase_if(const std::function<bool(ClaimId, const PostedBinding&)>& is_over) {
  // First by uid, since this looks up the bindings that the next line erases.
  std::erase_if(by_uid_, [&](const auto& one) { return is_over(one.second, at(one.second)); });
  std::erase_if(by_claim_, [&](const auto& one) { return is_over(one.first, one.second.binding); });
  MGPU_CHECK(by_uid_.size() == by_claim_.size(), "each binding is found by claim and by uid");
}

bool PostedBindings::has_unsettled(const PodUid& uid) const {
  const auto [first, last] = by_uid_.equal_range(uid);
  return std::any_of(
      first, last, [this](const auto& one) { return !by_claim_.at(one.second).binding.accepted; });
}

}  // namespace mgpu::extender
