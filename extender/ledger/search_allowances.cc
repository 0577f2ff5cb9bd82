#include "extender/ledger/search_allowances.h"

#include <algorithm>

#include "common/base/check.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {

std::uint64_t SearchAllowances::left(const Account& account, Instant now) {
  const auto earned = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::max(now - account.at, Duration(0)));
  return std::min<std::uint64_t>(
      account.left + static_cast<std::uint64_t>(earned.count()) * kSearchStepsPerMs,
      kSearchStepsSaved);
}

std::uint64_t SearchAllowances::left(const std::string& name_space, Instant now) const {
  const auto account = accounts_.find(name_space);
  return account == accounts_.end() ? kSearchStepsSaved : left(account->second, now);
}

std::uint32_t SearchAllowances::of(const std::string& name_space, std::uint32_t most, Instant now) {
  const std::uint64_t steps = std::max<std::uint64_t>(left(name_space, now), kSearchStepsLeast);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, most));
}

void SearchAllowances::charge(const std::string& name_space, std::uint32_t spent, bool limited,
                              Instant now) {
  spent_ += spent;
  limited_ += limited ? 1 : 0;
  if (spent == 0) return;
  const std::uint64_t before = left(name_space, now);
  if (accounts_.size() >= kSearchAccountsMax && !accounts_.contains(name_space)) {
    // Many namespaces of one tenant do not give another one its steps back.
    accounts_.erase(std::ranges::max_element(
        accounts_, {}, [&](const auto& account) { return left(account.second, now); }));
  }
  accounts_[name_space] = {before - std::min<std::uint64_t>(before, spent), now};
  MGPU_DEBUG_CHECK(before <= kSearchStepsSaved && accounts_.size() <= kSearchAccountsMax,
                   "what namespaces keep of their steps is bounded");
}

}  // namespace mgpu::extender
