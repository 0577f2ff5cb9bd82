// The account of use, with random shares, samples, pauses and restarts of the plugin, against a
// reference that adds up each interval from the list of all samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kHistories = 300;
constexpr int kSamples = 120;
constexpr double kRounding = 1e-6;

// A sample of the monitor as one container sees it.
struct Seen {
  milliseconds at{0};
  bool held = false;
  std::int64_t core = 0;
  bool fresh = false;
  std::optional<double> percent;
  bool restarted = false;  // the plugin, since the last sample
};

struct Sums {
  double granted = 0;
  double used = 0;
  double measured = 0;
};

double between(const Seen& a, const Seen& b) {
  return static_cast<double>((b.at - a.at).count()) / 1'000;
}

// The definitions of use_account.h, one interval after another.
Sums reference(const std::vector<Seen>& all) {
  Sums sums;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const bool short_end = !all[i + 1].held && all[i + 1].at - all[i].at <= kEndGapMax;
    if (!all[i].held || !(all[i + 1].held || short_end)) continue;
    sums.granted += static_cast<double>(all[i].core) / 100 * between(all[i], all[i + 1]);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].held || !all[i].fresh || !all[i].percent) continue;
    // The next sample of the driver, while the share is held.
    std::size_t next = i + 1;
    const auto continues = [&] {
      return next < all.size() && all[next].held && !all[next].restarted;
    };
    while (continues() && !all[next].fresh) ++next;
    if (!continues() || !all[next].percent) continue;
    if (all[next].at - all[i].at > kMeasuredGapMax) continue;
    const double time = between(all[i], all[next]);
    sums.measured += time;
    sums.used += (*all[i].percent + *all[next].percent) / 200 * time;
  }
  return sums;
}

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed), account_(moment()) {}

  void run() {
    for (int n = 0; n < kSamples; ++n) {
      if (one_in(20)) restart();
      sample();
      check();
    }
  }

 private:
  static constexpr int kContainers = 4;

  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool one_in(int chances) { return number(chances) == 0; }
  UseMoment moment() const {
    return {now_, std::chrono::sys_seconds(std::chrono::floor<seconds>(now_))};
  }

  void restart() {
    const SavedUse saved = account_.saved(moment());
    now_ += seconds(number(30));
    account_ = UseAccount(saved, moment());
    restarted_ = true;
  }

  HeldShare share(int n) const {
    const Seen& seen = seen_.at(n).back();
    HeldShare made{Owner{{"ml", "p"}, PodUid(n < 2 ? "u" : "v"), n % 2 == 0 ? "a" : "b", {}, 0},
                   {CardIndex(0), CardUuid("GPU-0"), {Percent(seen.core), MiB(1)}}};
    made.sm_percent = seen.percent;
    return made;
  }

  void sample() {
    // The time of day is exact to a second only, so that all times are.
    now_ += seconds(one_in(15) ? number(60) : 1 + number(6));
    const bool fresh = !one_in(4);
    std::vector<HeldShare> held;
    for (int n = 0; n < kContainers; ++n) {
      std::vector<Seen>& all = seen_[n];
      const bool was_held = !all.empty() && all.back().held;
      Seen next{now_, was_held ? !one_in(25) : one_in(6), 1 + number(100), fresh, {}, restarted_};
      if (!one_in(10)) next.percent = number(101);
      all.push_back(next);
      if (next.held) held.push_back(share(n));
    }
    // The order has no meaning.
    std::shuffle(held.begin(), held.end(), random_);
    account_.add(moment(), held, fresh);
    restarted_ = false;
  }

  // A share is known from the first sample that has it.
  void check() const {
    std::map<std::pair<std::string, std::string>, const ShareUse*> found;
    for (const ShareUse* use : account_.shares()) found[{use->uid.str(), use->container}] = use;
    for (int n = 0; n < kContainers; ++n) {
      const std::vector<Seen>& all = seen_.at(n);
      const auto at = found.find({n < 2 ? "u" : "v", n % 2 == 0 ? "a" : "b"});
      ASSERT_EQ(at != found.end(), std::ranges::any_of(all, &Seen::held));
      if (at == found.end()) continue;
      const ShareUse& use = *at->second;
      const Sums sums = reference(all);
      EXPECT_EQ(use.running, all.back().held);
      EXPECT_NEAR(use.granted_card_seconds, sums.granted, kRounding);
      EXPECT_NEAR(use.used_card_seconds, sums.used, kRounding);
      EXPECT_NEAR(use.measured_seconds, sums.measured, kRounding);
      EXPECT_LE(use.used_card_seconds, use.measured_seconds + kRounding);
      double histogram = 0;
      for (const double time : use.histogram.seconds()) histogram += time;
      EXPECT_NEAR(histogram, use.measured_seconds, kRounding);
    }
  }

  std::mt19937 random_;
  milliseconds now_{seconds(1'000'000)};
  bool restarted_ = false;
  UseAccount account_;
  std::map<int, std::vector<Seen>> seen_;
};

TEST(UseAccountProperty, EqualsTheReferenceAfterEverySample) {
  for (std::uint32_t seed = 0; seed < kHistories && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World(seed).run();
  }
}

}  // namespace
}  // namespace mgpu::plugin
