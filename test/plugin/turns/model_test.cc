// What turns add up to, beside two published controllers: random mixes of programs on a model of a
// card. MGPU_TURN_MIXES=N runs so many, and prints tables that draw.py reads. MGPU_TURN_DENSITY=F
// gives grids F times as many blocks, on which the controllers depend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/plugin/turns/bucket_gate.h"
#include "test/plugin/turns/mixes.h"
#include "test/plugin/turns/turn_gate.h"

namespace mgpu::plugin::model {
namespace {

constexpr Time kRun = 4 * kSecond;
constexpr Time kWarm = kSecond;  // left out
constexpr Time kStep = 10 * kMillisecond;

struct Mode {
  std::string name;
  std::optional<TurnRule> turns{};
  std::optional<Controller> controller{};
};
const Mode kBurst{.name = "burst", .turns = TurnRule::kBurst};
const Mode kFixed{.name = "fixed", .turns = TurnRule::kFixed};
const Mode kDelta{.name = "delta", .controller = Controller::kDelta};
const Mode kAimd{.name = "aimd", .controller = Controller::kAimd};
const Mode kNone{.name = "none"};

double density() {
  const char* const wanted = std::getenv("MGPU_TURN_DENSITY");
  return wanted != nullptr ? std::strtod(wanted, nullptr) : 1;
}

std::unique_ptr<Gate> gate_of(const Mode& mode, const std::vector<double>& shares) {
  if (mode.turns) return std::make_unique<TurnGate>(*mode.turns, shares);
  if (mode.controller) return std::make_unique<BucketGate>(*mode.controller, shares, density());
  return std::make_unique<Gate>();
}

// The controllers have fixed shares only.
TurnRule rule_of(const Mode& mode) {
  return mode.controller ? TurnRule::kFixed : mode.turns.value_or(TurnRule::kBurst);
}

std::uint64_t wanted_mixes() {
  const char* const wanted = std::getenv("MGPU_TURN_MIXES");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 0;
}

// --- shares in random mixes ----------------------------------------------------------------------

struct Seen {
  std::vector<double> errors{};      // points
  std::vector<double> ratios{};      // of what was got to what was due
  std::vector<double> saturating{};  // the same, of those that always have work
};

struct Mix {
  std::uint64_t seed;
  std::vector<Tenant> tenants;
  std::vector<double> due{};
  std::vector<double> got{};

  double worst() const {
    double most = 0;
    for (std::size_t i = 0; i < due.size(); ++i) most = std::max(most, std::abs(got[i] - due[i]));
    return most;
  }
  bool has(const std::string& program) const {
    return std::ranges::any_of(
        tenants, [&](const Tenant& tenant) { return tenant.program.name == program; });
  }
};

std::vector<double> due_of(const Mix& mix, const Card& card, TurnRule rule) {
  std::vector<Alone> alones;
  for (const Tenant& tenant : mix.tenants) alones.push_back(alone(tenant, kWarm, kRun));
  std::vector<double> sum(mix.tenants.size());
  for (Time time = kWarm; time < kRun; time += kStep) {
    std::vector<bool> on;
    for (std::size_t i = 0; i < sum.size(); ++i) on.push_back(card.is_on(i, time));
    const auto now = due(mix.tenants, alones, on, rule);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += now[i] * kStep / (kRun - kWarm);
  }
  return sum;
}

Mix run_mix(std::uint64_t seed, const Mode& mode) {
  Mix mix{.seed = seed, .tenants = random_mix(seed)};
  std::vector<double> shares;
  for (const Tenant& tenant : mix.tenants) shares.push_back(tenant.share);
  Card card(seed, gate_of(mode, shares));
  for (const Tenant& tenant : mix.tenants) card.add(tenant.program, tenant.seed);
  card.run(kWarm);
  std::vector<Time> before;
  for (std::size_t i = 0; i < shares.size(); ++i) before.push_back(card.busy(i));
  card.run(kRun);
  mix.due = due_of(mix, card, rule_of(mode));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    mix.got.push_back(static_cast<double>(card.busy(i) - before[i]) / (kRun - kWarm));
  }
  return mix;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

Seen seen_of(const std::vector<Mix>& mixes) {
  Seen seen;
  for (const Mix& mix : mixes) {
    for (std::size_t i = 0; i < mix.tenants.size(); ++i) {
      seen.errors.push_back(std::abs(mix.got[i] - mix.due[i]) * 100);
      seen.ratios.push_back(mix.got[i] / mix.due[i]);
      if (mix.tenants[i].saturates) seen.saturating.push_back(seen.ratios.back());
    }
  }
  return seen;
}

void print_row(const std::string& name, const std::vector<Mix>& mixes) {
  if (mixes.empty()) return;
  const Seen seen = seen_of(mixes);
  std::printf("shares,%s,%zu,%.2f,%.2f,%.3f,%.3f,%.3f,%.3f\n", name.c_str(), mixes.size(),
              mean(seen.errors), quantile(seen.errors, 0.95), quantile(seen.saturating, 0.05),
              quantile(seen.saturating, 0), quantile(seen.ratios, 0.05), quantile(seen.ratios, 0));
}

void print_programs(const std::string& name, const std::vector<Mix>& mixes) {
  std::map<std::string, Seen> programs;
  for (const Mix& mix : mixes) {
    for (std::size_t i = 0; i < mix.tenants.size(); ++i) {
      Seen& seen = programs[mix.tenants[i].program.name];
      seen.errors.push_back(std::abs(mix.got[i] - mix.due[i]) * 100);
      seen.ratios.push_back(mix.got[i] / mix.due[i]);
    }
  }
  for (const auto& [program, seen] : programs) {
    std::printf("program,%s,%s,%zu,%.2f,%.2f,%.3f,%.3f\n", name.c_str(), program.c_str(),
                seen.errors.size(), mean(seen.errors), quantile(seen.errors, 0.95),
                mean(seen.ratios), quantile(seen.ratios, 0.05));
  }
}

void print_worst(const std::string& name, std::vector<Mix> mixes) {
  std::ranges::sort(mixes, [](const Mix& a, const Mix& b) { return a.worst() > b.worst(); });
  for (std::size_t i = 0; i < std::min<std::size_t>(10, mixes.size()); ++i) {
    const Mix& mix = mixes[i];
    std::printf("worst,%s,%d", name.c_str(), static_cast<int>(mix.seed));
    for (std::size_t j = 0; j < mix.tenants.size(); ++j) {
      std::printf(",%.2f %s: %.3f of %.3f", mix.tenants[j].share,
                  mix.tenants[j].program.name.c_str(), mix.got[j], mix.due[j]);
    }
    std::printf("\n");
  }
}

void print_quantiles(const char* what, const std::string& name, const std::vector<double>& values) {
  std::printf("%s,%s", what, name.c_str());
  for (int i = 0; i <= 100; ++i) std::printf(",%.3f", quantile(values, i / 100.0));
  std::printf("\n");
}

Seen run_mixes(const Mode& mode) {
  constexpr std::uint64_t kUsual = 4;  // the last one has a loop with long gaps
  const std::uint64_t count = wanted_mixes() > 0 ? wanted_mixes() : kUsual;
  std::vector<Mix> mixes;
  for (std::uint64_t seed = 1; seed <= count; ++seed) mixes.push_back(run_mix(seed, mode));
  const Seen seen = seen_of(mixes);
  if (wanted_mixes() == 0) return seen;
  print_row(mode.name, mixes);
  print_quantiles("errors", mode.name, seen.errors);
  print_quantiles("saturating", mode.name, seen.saturating);
  print_programs(mode.name, mixes);
  print_worst(mode.name, mixes);
  std::erase_if(mixes, [](const Mix& mix) { return mix.has("loop with long gaps"); });
  print_row(mode.name + " without long gaps", mixes);
  return seen;
}

TEST(TurnsModel, BurstGivesEachItsShareAndDealsTheRest) {
  const Seen seen = run_mixes(kBurst);
  EXPECT_LT(mean(seen.errors), 1.25);
  EXPECT_LT(quantile(seen.errors, 0.95), 6);
  EXPECT_GT(quantile(seen.saturating, 0.05), 0.94);
}

TEST(TurnsModel, FixedSharesAreNotExceeded) {
  const Seen seen = run_mixes(kFixed);
  EXPECT_LT(mean(seen.errors), 1);
  EXPECT_LT(quantile(seen.errors, 0.95), 3);
  EXPECT_GT(quantile(seen.saturating, 0.05), 0.95);
}

TEST(TurnsModel, ABucketOfBlocksIsFurtherFromTheShares) {
  EXPECT_GT(mean(run_mixes(kDelta).errors), 2);
  EXPECT_GT(mean(run_mixes(kAimd).errors), 2);
}

TEST(TurnsModel, TheDriverAloneKeepsNoShares) {
  EXPECT_GT(mean(run_mixes(kNone).errors), 8);
}

// A loop beside kernels that are much longer than its gaps.
TEST(TurnsModel, ALoopIsNotStarvedByLongKernels) {
  Card card(1, gate_of(kBurst, {0.9, 0.1}));
  card.add({.name = "loop",
            .kind = Kind::kLoop,
            .kernels = {{.duration = kMillisecond}},
            .burst = 10,
            .gap = 10 * kMillisecond},
           1);
  card.add({.name = "long kernels", .kernels = {{.duration = 400 * kMillisecond}}, .wait_every = 1},
           2);
  card.run(10 * kSecond);
  EXPECT_GT(static_cast<double>(card.busy(0)) / (10 * kSecond), 0.35);
}

// --- programs that begin and end -----------------------------------------------------------------

// One with 70 % ends, and begins again later, beside one with 30 % that goes on.
constexpr Time kEnds = 3 * kSecond;
constexpr Time kBegins = 4 * kSecond;
constexpr Time kOver = 7 * kSecond;

class TwoPrograms {
 public:
  // Runs differ in kernels and seeds.
  TwoPrograms(const Mode& mode, std::uint64_t run) : card_(50 + run, gate_of(mode, {0.7, 0.3})) {
    const auto kernels = [](std::uint64_t least, std::uint64_t most) {
      return std::vector<Kernel>{of(least), of((least + most) / 2), of(most)};
    };
    card_.add({.name = "comes and goes",
               .kernels = kernels(60 + 20 * run, 300 + 60 * run),
               .wait_every = run % 2 == 0 ? 300 : 0,
               .on = kEnds,
               .off = kBegins - kEnds},
              2 * run + 1);
    card_.add({.name = "goes on", .kernels = kernels(40 + 5 * run, 500), .wait_every = 300},
              2 * run + 2);
    for (Time time = 0; time <= kOver; time += kMillisecond) {
      card_.run(time);
      for (std::size_t i = 0; i < 2; ++i) busy_[i].push_back(card_.busy(i));
    }
  }

  double part(std::size_t who, Time from, Time to) const {
    const auto at = [&](Time time) {
      return busy_[who][static_cast<std::size_t>(time / kMillisecond)];
    };
    return static_cast<double>(at(to) - at(from)) / static_cast<double>(to - from);
  }
  // From when on both are within five points in 99 of 100 windows of 200 ms.
  std::optional<Time> settled_after() const {
    constexpr Time kWindow = 200 * kMillisecond;
    std::vector<bool> all;
    for (Time time = kBegins; time + kWindow <= kOver; time += kStep) {
      const bool within = std::abs(part(0, time, time + kWindow) - 0.7) <= 0.05 &&
                          std::abs(part(1, time, time + kWindow) - 0.3) <= 0.05;
      all.push_back(within);
    }
    for (auto at = all.begin(); at != all.end(); ++at) {
      if (std::count(at, all.end(), false) * 100 > all.end() - at) continue;
      return (at - all.begin()) * kStep;
    }
    return std::nullopt;
  }
  // How long it takes until the other one has the card.
  std::optional<Time> lent_after() const {
    constexpr Time kWindow = 5 * kMillisecond;
    for (Time time = kEnds; time + kWindow <= kBegins; time += kMillisecond) {
      if (part(1, time, time + kWindow) >= 0.9) return time - kEnds;
    }
    return std::nullopt;
  }

 private:
  // As many blocks as the kernels of the mixes have on average.
  static Kernel of(std::uint64_t microseconds) {
    const auto count = static_cast<Time>(microseconds);
    return {.duration = count * kMicrosecond, .blocks = 10 * static_cast<double>(count)};
  }

  Card card_;
  std::vector<Time> busy_[2];
};

struct Changes {
  std::uint64_t runs = 0;
  std::uint64_t settled = 0;
  Time settled_after = 0;  // at most
  std::uint64_t lent = 0;
  Time lent_after = 0;  // at most
};

void print_changes(const Mode& mode, const Changes& seen) {
  std::printf("changes,%s,%d,%d,%d", mode.name.c_str(), static_cast<int>(seen.runs),
              static_cast<int>(seen.settled), static_cast<int>(seen.settled_after / kMillisecond));
  if (rule_of(mode) == TurnRule::kBurst) {
    std::printf(",%d,%d", static_cast<int>(seen.lent),
                static_cast<int>(seen.lent_after / kMillisecond));
  }
  std::printf("\n");
}

Changes run_changes(const Mode& mode) {
  Changes seen{.runs = wanted_mixes() > 0 ? 20U : 1U};
  for (std::uint64_t run = 0; run < seen.runs; ++run) {
    const TwoPrograms two(mode, run);
    const auto settled = two.settled_after();
    if (settled) ++seen.settled;
    seen.settled_after = std::max(seen.settled_after, settled.value_or(0));
    const auto lent = two.lent_after();
    if (lent) ++seen.lent;
    seen.lent_after = std::max(seen.lent_after, lent.value_or(0));
  }
  if (wanted_mixes() > 0) print_changes(mode, seen);
  return seen;
}

TEST(TurnsModel, ProgramsThatBeginAndEndHaveTheirShareSoon) {
  const Changes burst = run_changes(kBurst);
  EXPECT_EQ(burst.settled, burst.runs);
  EXPECT_LE(burst.settled_after, 100 * kMillisecond);
  EXPECT_EQ(burst.lent, burst.runs);
  EXPECT_LE(burst.lent_after, 10 * kMillisecond);
  const Changes fixed = run_changes(kFixed);
  EXPECT_EQ(fixed.settled, fixed.runs);
  EXPECT_LE(fixed.settled_after, 100 * kMillisecond);
  for (const Mode& mode : {kDelta, kAimd, kNone}) {
    EXPECT_LT(run_changes(mode).settled, burst.runs) << mode.name;
  }
}

}  // namespace
}  // namespace mgpu::plugin::model
