// Feeds a saved account of use to its reader.
//
// Properties: an account that is written again is read as equal text; it can be continued, and its
// amounts are numbers that are not negative.
#include <chrono>
#include <cmath>

#include "plugin/state/use_json.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(use_account) {
  const auto saved = plugin::parse_saved_use(input);
  if (!saved) return expect_sentence(saved.error().message);
  expect(saved->shares.size() <= plugin::kSharesMax, "shares of an account");
  const std::string text = plugin::saved_use_json(*saved);
  const auto again = plugin::parse_saved_use(text);
  expect(again && plugin::saved_use_json(*again) == text, "an account is read as it is written");
  const plugin::UseMoment now{std::chrono::hours(1), saved->saved + std::chrono::hours(1)};
  plugin::UseAccount account(*saved, now);
  account.add(now, {}, true);
  for (const plugin::ShareUse* use : account.shares()) {
    expect(!use->running, "a share that is not held does not run");
    expect(std::isfinite(use->granted_card_seconds) && use->granted_card_seconds >= 0, "granted");
    expect(std::isfinite(use->used_card_seconds) && use->used_card_seconds >= 0, "used");
  }
  expect(!plugin::use_json(NodeName("n1"), account, now.wall).empty(), "an account is served");
}

}  // namespace mgpu::fuzz
