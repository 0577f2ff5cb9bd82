#include "plugin/monitor/use_account.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mgpu::plugin {
namespace {

constexpr double kPercentMax = 100;

double seconds_of(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1'000;
}

// A value that no driver can have measured counts as none.
std::optional<double> valid_percent(std::optional<double> percent) {
  if (!percent || !(*percent >= 0 && *percent <= kPercentMax)) return std::nullopt;
  return percent;
}

double cards_of(const CardGrant& grant) {
  return static_cast<double>(grant.share.core.value()) / kPercentMax;
}

}  // namespace

void UseHistogram::add(double percent, double seconds) {
  const double rounded = std::ceil(std::clamp(percent, 0.0, kPercentMax));
  seconds_[static_cast<std::size_t>(rounded)] += seconds;
}

std::optional<int> UseHistogram::quantile(double part) const {
  double all = 0;
  for (const double seconds : seconds_) all += seconds;
  if (!(all > 0)) return std::nullopt;
  double below = 0;
  for (std::size_t percent = 0; percent < kBuckets; ++percent) {
    below += seconds_[percent];
    // The sum of all parts may differ from the sum of all by a rounding error.
    if (below >= part * all * (1 - 1e-12)) return static_cast<int>(percent);
  }
  return static_cast<int>(kBuckets - 1);
}

UseAccount::UseAccount(SavedUse saved, const UseMoment& now)
    : since_(saved.since), last_(now), left_out_(saved.left_out) {
  const auto gap = now.wall - saved.saved;
  if (gap > gap.zero() && gap <= kUnwatchedMax) unwatched_ = gap;
  for (ShareUse& use : saved.shares) {
    use.granted_card_seconds_before = use.granted_card_seconds;
    use.used_card_seconds_before = use.used_card_seconds;
    Key key(use.uid, use.container, use.grant.uuid);
    entries_.try_emplace(std::move(key), Entry{std::move(use), now.steady});
  }
  remove_oldest();
}

double UseAccount::elapsed(const UseMoment& now) const {
  return seconds_of(std::max(now.steady - last_.steady, std::chrono::milliseconds(0)) + unwatched_);
}

void UseAccount::add(const UseMoment& now, const std::vector<HeldShare>& held, bool fresh) {
  for (auto& [key, entry] : entries_) entry.in_sample = false;
  const std::size_t counted = std::min(held.size(), kSharesMax);
  for (std::size_t i = 0; i < counted; ++i) add_share(now, held[i], fresh);
  beyond_ = held.size() - counted;
  for (auto& [key, entry] : entries_) {
    if (entry.use.running && !entry.in_sample) end_share(now, entry);
  }
  remove_oldest();
  last_ = now;
  unwatched_ = std::chrono::milliseconds(0);
}

void UseAccount::add_share(const UseMoment& now, const HeldShare& share, bool fresh) {
  const Owner& container = share.container;
  const auto [at, is_new] =
      entries_.try_emplace(Key(container.uid, container.container, share.grant.uuid));
  Entry& entry = at->second;
  if (entry.in_sample) return;
  entry.in_sample = true;
  ShareUse& use = entry.use;
  if (is_new) {
    use.pod = container.pod;
    use.uid = container.uid;
    use.container = container.container;
    use.from = use.to = now.wall;
  }
  // The share that was held until now, and not that of this sample.
  if (use.running) add_granted(now, use);
  use.running = true;
  use.grant = share.grant;
  use.to = std::max(use.from, now.wall);
  if (share.pod_owner) use.pod_owner = share.pod_owner;
  entry.seen = now.steady;
  if (fresh) measure(now, share, entry);
}

void UseAccount::measure(const UseMoment& now, const HeldShare& share, Entry& entry) const {
  ShareUse& use = entry.use;
  if (share.memory) use.memory_peak = std::max(use.memory_peak.value_or(MiB()), *share.memory);
  const std::optional<Point> before = std::exchange(entry.point, std::nullopt);
  const auto percent = valid_percent(share.sm_percent);
  if (!percent) return;
  ++use.samples;
  entry.point = Point{now.steady, *percent};
  if (!before || now.steady <= before->at || now.steady - before->at > kMeasuredGapMax) return;
  const double half = seconds_of(now.steady - before->at) / 2;
  use.used_card_seconds += (before->percent + *percent) / kPercentMax * half;
  use.measured_seconds += 2 * half;
  use.histogram.add(before->percent, half);
  use.histogram.add(*percent, half);
}

void UseAccount::end_share(const UseMoment& now, Entry& entry) const {
  ShareUse& use = entry.use;
  use.running = false;
  entry.point.reset();
  entry.seen = now.steady;
  if (elapsed(now) > seconds_of(kEndGapMax)) return;
  add_granted(now, use);
  use.to = std::max(use.from, now.wall);
}

void UseAccount::add_granted(const UseMoment& now, ShareUse& use) const {
  use.granted_card_seconds += cards_of(use.grant) * elapsed(now);
  use.granted_card_seconds_before += cards_of(use.grant) * seconds_of(unwatched_);
}

std::vector<const UseAccount::Entry*> UseAccount::sorted() const {
  std::vector<const Entry*> all;
  all.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) all.push_back(&entry);
  std::ranges::stable_sort(all, [](const Entry* a, const Entry* b) {
    if (a->use.running != b->use.running) return a->use.running;
    return !a->use.running && std::pair(a->seen, a->use.to) > std::pair(b->seen, b->use.to);
  });
  return all;
}

// Otherwise one namespace with many short pods would remove the shares of all others.
void UseAccount::remove_oldest() {
  const auto running = static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& one) { return one.second.use.running; }));
  const std::size_t kept = std::min(kSharesMax - std::min(running, kSharesMax), kEndedSharesMax);
  std::size_t count = entries_.size() - running;
  if (count <= kept) return;
  std::map<std::string, std::vector<const Entry*>> ended;  // by namespace; the last one goes first
  for (const Entry* entry : sorted()) {
    if (!entry->use.running) ended[entry->use.pod.name_space].push_back(entry);
  }
  for (; count > kept; --count) {
    auto& most = std::ranges::max_element(ended, {}, [](const auto& one) {
                   const auto& entries = one.second;
                   const auto oldest =
                       entries.empty() ? std::chrono::milliseconds(0) : entries.back()->seen;
                   return std::pair(entries.size(), -oldest);
                 })->second;
    const ShareUse& use = most.back()->use;
    most.pop_back();
    entries_.erase(Key(use.uid, use.container, use.grant.uuid));
    ++left_out_;
  }
}

std::vector<const ShareUse*> UseAccount::shares() const {
  std::vector<const ShareUse*> shares;
  for (const Entry* entry : sorted()) shares.push_back(&entry->use);
  return shares;
}

std::vector<const ShareUse*> UseAccount::recent_shares(const UseMoment& now,
                                                       std::chrono::milliseconds age,
                                                       std::size_t most) const {
  std::vector<const ShareUse*> shares;
  for (const Entry* entry : sorted()) {
    if (!entry->use.running) {
      if (most == 0 || now.steady - entry->seen > age) break;
      --most;
    }
    shares.push_back(&entry->use);
  }
  return shares;
}

SavedUse UseAccount::saved(const UseMoment& now) const {
  SavedUse saved{since_, now.wall, left_out_, {}};
  for (const ShareUse* share : shares()) saved.shares.push_back(*share);
  return saved;
}

}  // namespace mgpu::plugin
