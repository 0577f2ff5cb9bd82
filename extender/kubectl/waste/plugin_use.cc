#include "extender/kubectl/waste/plugin_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/base/rfc3339.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr double kHourSeconds = 3'600;

// Absent, or no amount: not set.
std::optional<double> amount_in(const Json& item, const char* name) {
  if (!item.contains(name)) return std::nullopt;
  const double value = item.at(name).get<double>();
  constexpr double kMost = 1e15;
  return value >= 0 && value < kMost ? std::optional(value) : std::nullopt;
}

std::string text_or_empty(const Json& item, const char* name) {
  return item.contains(name) ? item.at(name).get<std::string>() : "";
}

MeasuredShare share_in(const Json& item) {
  MeasuredShare share;
  share.pod = {item.at("namespace").get<std::string>(), item.at("pod").get<std::string>()};
  share.container = item.at("container").get<std::string>();
  share.uuid = item.at("uuid").get<std::string>();
  share.owner_kind = text_or_empty(item, "ownerKind");
  share.owner = text_or_empty(item, "owner");
  share.core = amount_in(item, "corePercent").value_or(0);
  share.memory = amount_in(item, "memoryMiB").value_or(0);
  share.granted_hours = amount_in(item, "cardSecondsGranted").value_or(0) / kHourSeconds;
  if (const auto used = amount_in(item, "cardSecondsUsed")) share.used_hours = *used / kHourSeconds;
  share.measured_hours = amount_in(item, "secondsMeasured").value_or(0) / kHourSeconds;
  share.samples = std::llround(amount_in(item, "samples").value_or(0));
  share.memory_peak = amount_in(item, "memoryMiBPeak");
  share.core_p95 = amount_in(item, "corePercentP95");
  return share;
}

// Clocks of machines are set, and samples end a little later than the text of the time.
constexpr double kTimeFactor = 1.01;
constexpr double kTimeMoreSeconds = 10;

double length_of(const UseFacts& account) {
  if (!account.since || !account.until) return 0;
  const std::chrono::duration<double> length = *account.until - *account.since;
  return std::max(0.0, length.count());
}

// Whether a share can have been held, used and measured for so long.
bool is_possible(const MeasuredShare& share, double account_seconds) {
  constexpr double kCardCore = 100;
  const double most = (account_seconds * kTimeFactor + kTimeMoreSeconds) / kHourSeconds;
  const double core = std::min(share.core, kCardCore) / kCardCore;
  return share.granted_hours <= core * most && share.used_hours.value_or(0) <= most &&
         share.measured_hours <= most;
}

// Leaves out the others. One sentence, however many they are.
void keep_possible(UseFacts& account) {
  const double length = length_of(account);
  const auto refused = [&](const MeasuredShare& share) { return !is_possible(share, length); };
  const auto first = std::ranges::find_if(account.shares, refused);
  if (first == account.shares.end()) return;
  const std::string name = to_string(first->pod);
  const auto number = std::erase_if(account.shares, refused);
  account.problems.push_back(
      fmt::format("{} of the items of the device plugin's account are left out: a container of pod "
                  "{} was granted or used more than {:.0f} seconds allow",
                  number, name, length));
}

void widen(const std::optional<Time>& since, const std::optional<Time>& now, UseFacts& facts) {
  if (since) {
    facts.since = std::min(facts.since.value_or(*since), *since);
    facts.since_newest = std::max(facts.since_newest.value_or(*since), *since);
  }
  if (now) facts.until = std::max(facts.until.value_or(*now), *now);
}

}  // namespace

Result<void> add_account(const std::string& body, UseFacts& facts) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object()) {
    return error("the answer of the device plugin to /use is not a JSON object");
  }
  const auto account = read_answer<UseFacts>("/use of the device plugin", [&] {
    UseFacts read;
    widen(read_rfc3339(answer.at("since").get<std::string>()),
          read_rfc3339(text_or_empty(answer, "now")), read);
    for (const Json& item : answer.at("items")) {
      if (read.shares.size() == kUseItemsMax) {
        ++read.left_out;
      } else {
        read.shares.push_back(share_in(item));
      }
    }
    keep_possible(read);
    if (answer.contains("leftOut")) read.left_out += answer.at("leftOut").get<std::int32_t>();
    return read;
  });
  if (!account) return account.error();
  ++facts.accounts;
  facts.problems.insert(facts.problems.end(), account->problems.begin(), account->problems.end());
  widen(account->since, account->until, facts);
  widen(account->since_newest, std::nullopt, facts);
  facts.left_out += std::max<std::int64_t>(account->left_out, 0);
  for (MeasuredShare share : account->shares) {
    share.since = account->since;
    facts.shares.push_back(std::move(share));
  }
  return {};
}

}  // namespace mgpu::kubectl
