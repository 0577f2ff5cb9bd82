// What turns add up to: random mixes of programs on a model of a card. MGPU_TURN_MIXES=N runs so
// many, and prints what was seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "test/plugin/turns/turn_gate.h"

namespace mgpu::plugin::model {
namespace {

constexpr Time kRun = 4 * kSecond;
constexpr Time kWarm = kSecond;  // left out
constexpr Time kStep = 10 * kMillisecond;

struct Tenant {
  double share;
  Program program;
  bool saturates;  // always has work for the card
  std::uint64_t seed;
};

Kernel kernel(double microseconds, double width = 1) {
  return {static_cast<Time>(microseconds * kMicrosecond), width};
}

Program random_program(Random& random, bool& saturates) {
  const auto of = [&](double low, double high) { return kernel(random.between(low, high)); };
  const auto time = [&](double low, double high) {
    return static_cast<Time>(random.between(low, high) * kMicrosecond);
  };
  saturates = true;
  switch (random.below(12)) {
    case 0:
      return {
          .name = "flood of 2 to 40 us", .kernels = {of(2, 12), of(5, 40)}, .wait_every = 2'000};
    case 1:
      return {.name = "flood of 20 to 800 us", .kernels = {of(20, 100), of(50, 300), of(200, 800)}};
    case 2:
      return {.name = "flood of 0.5 to 20 ms",
              .kernels = {of(1'000, 20'000), of(500, 8'000)},
              .wait_every = 20};
    case 3:
      return {
          .name = "four narrow streams",
          .kernels = {kernel(random.between(30, 400), 0.25), kernel(random.between(30, 400), 0.5)},
          .streams = 4,
          .wait_every = 400};
    case 4:
      return {.name = "graphs, one by one", .kernels = {of(1'000, 15'000)}, .wait_every = 1};
    case 5:
      return {.name = "kernels of 20 to 60 ms", .kernels = {of(20'000, 60'000)}, .wait_every = 1};
    case 6:
      return {.name = "bursts",
              .kernels = {of(20, 800), of(20, 800)},
              .on = time(300'000, 1'500'000),
              .off = time(300'000, 1'500'000)};
    case 7:
      saturates = false;
      return {.name = "loop with short gaps",
              .kind = Kind::kLoop,
              .kernels = {of(100, 900)},
              .burst = 1 + static_cast<int>(random.below(20)),
              .gap = time(20, 150)};
    case 8:
      saturates = false;
      return {.name = "loop with long gaps",
              .kind = Kind::kLoop,
              .kernels = {of(200, 2'000)},
              .burst = 1 + static_cast<int>(random.below(10)),
              .gap = time(1'000, 20'000)};
    case 9:
      saturates = false;
      return {.name = "loop of 15 to 60 us",
              .kind = Kind::kLoop,
              .kernels = {of(15, 60)},
              .gap = time(10, 60)};
    case 10:
      saturates = false;
      return {.name = "training steps",
              .kind = Kind::kLoop,
              .kernels = {of(20, 100), of(20, 300), of(100, 600)},
              .burst = 200,
              .gap = time(200, 3'000)};
    default:
      saturates = false;
      return {.name = "requests", .kind = Kind::kServe, .kernels = {of(1'000, 8'000)}};
  }
}

std::vector<Tenant> random_mix(std::uint64_t seed) {
  Random random(seed * 7'919 + 13);
  std::vector<Tenant> mix;
  const std::size_t count = 2 + random.below(4);
  int left = 100;
  for (std::size_t i = 0; i < count && left >= 10; ++i) {
    constexpr int kShares[] = {10, 20, 25, 30, 40, 50, 70, 90};
    const int share = std::min(kShares[random.below(std::size(kShares))], left);
    Tenant tenant{.share = share / 100.0, .program = {}, .saturates = true, .seed = 0};
    tenant.program = random_program(random, tenant.saturates);
    tenant.seed = random.next();
    if (tenant.program.kind == Kind::kServe) {
      const double seconds = static_cast<double>(tenant.program.kernels[0].duration) / kSecond;
      tenant.program.rate = tenant.share * random.between(0.3, 0.8) / seconds;
    }
    left -= share;
    mix.push_back(tenant);
  }
  return mix;
}

// What a program does without others: parts of the time.
struct Alone {
  double busy;
  double held;
};

Alone alone(const Tenant& tenant) {
  Program program = tenant.program;
  program.on = program.off = 0;
  Card card(1, std::make_unique<Gate>());
  card.add(program, tenant.seed);
  const Time time = program.kind == Kind::kServe ? kRun : kSecond;
  card.run(time);
  const auto part = [&](Time of) { return static_cast<double>(of) / static_cast<double>(time); };
  const double busy = part(card.busy(0));
  // Nobody can use the time between two requests.
  if (program.kind == Kind::kServe) return {busy, busy};
  return {busy, std::min(1.0, std::max(busy, part(card.held(0))))};
}

// What each is due of a moment: of the time that it can hold its share at least, and what is left
// by share, up to what it can hold or, with fixed shares, to its share.
std::vector<double> due(const std::vector<Tenant>& mix, const std::vector<Alone>& alones,
                        const std::vector<bool>& on, TurnRule rule) {
  const std::size_t count = mix.size();
  std::vector<double> most(count);
  std::vector<double> gets(count);
  double left = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const bool limited = rule == TurnRule::kFixed;
    most[i] = limited ? std::min(alones[i].held, mix[i].share) : alones[i].held;
    if (!on[i]) most[i] = 0;
    gets[i] = std::min(most[i], mix[i].share);
    left -= gets[i];
  }
  for (int round = 0; round < 20 && left > 1e-6; ++round) {
    double weights = 0;
    for (std::size_t i = 0; i < count; ++i) weights += most[i] - gets[i] > 1e-9 ? mix[i].share : 0;
    const double dealt = left;
    for (std::size_t i = 0; i < count && weights > 0; ++i) {
      const double more =
          std::max(0.0, std::min(most[i] - gets[i], dealt * mix[i].share / weights));
      gets[i] += more;
      left -= more;
    }
  }
  for (std::size_t i = 0; i < count; ++i) gets[i] *= alones[i].busy / alones[i].held;
  return gets;
}

struct Seen {
  std::vector<double> errors{};  // points
  std::vector<double> ratios{};  // of what was got to what was due, of those that saturate
};

void run_mix(std::uint64_t seed, std::optional<TurnRule> rule, Seen& seen) {
  const std::vector<Tenant> mix = random_mix(seed);
  std::vector<double> shares;
  for (const Tenant& tenant : mix) shares.push_back(tenant.share);
  std::unique_ptr<Gate> gate = std::make_unique<Gate>();
  if (rule) gate = std::make_unique<TurnGate>(*rule, shares);
  Card card(seed, std::move(gate));
  std::vector<Alone> alones;
  for (const Tenant& tenant : mix) {
    card.add(tenant.program, tenant.seed);
    alones.push_back(alone(tenant));
  }
  card.run(kWarm);
  std::vector<Time> before;
  for (std::size_t i = 0; i < mix.size(); ++i) before.push_back(card.busy(i));
  card.run(kRun);
  std::vector<double> expected(mix.size());
  for (Time time = kWarm; time < kRun; time += kStep) {
    std::vector<bool> on;
    for (std::size_t i = 0; i < mix.size(); ++i) on.push_back(card.is_on(i, time));
    const auto now = due(mix, alones, on, rule.value_or(TurnRule::kBurst));
    for (std::size_t i = 0; i < mix.size(); ++i) expected[i] += now[i] * kStep / (kRun - kWarm);
  }
  for (std::size_t i = 0; i < mix.size(); ++i) {
    const double got = static_cast<double>(card.busy(i) - before[i]) / (kRun - kWarm);
    seen.errors.push_back(std::abs(got - expected[i]) * 100);
    if (mix[i].saturates) seen.ratios.push_back(got / expected[i]);
    if (std::getenv("MGPU_TURN_DETAILS") == nullptr) continue;
    std::printf("mix %d share %.2f %-24s due %.3f got %.3f\n", static_cast<int>(seed), mix[i].share,
                mix[i].program.name.c_str(), expected[i], got);
  }
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

Seen run_mixes(const char* name, std::optional<TurnRule> rule) {
  const char* const wanted = std::getenv("MGPU_TURN_MIXES");
  const auto count = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 8;
  Seen seen;
  for (std::uint64_t seed = 1; seed <= count; ++seed) run_mix(seed, rule, seen);
  std::printf(
      "%s, %d mixes: error of %.2f points, 95 %% below %.2f; who saturates got %.3f of what is "
      "due, 5 %% below %.3f\n",
      name, static_cast<int>(count), mean(seen.errors), quantile(seen.errors, 0.95),
      mean(seen.ratios), quantile(seen.ratios, 0.05));
  return seen;
}

TEST(TurnsModel, BurstGivesEachItsShareAndDealsTheRest) {
  const Seen seen = run_mixes("burst", TurnRule::kBurst);
  EXPECT_LT(mean(seen.errors), 1.5);
  EXPECT_LT(quantile(seen.errors, 0.95), 5);
  EXPECT_GT(mean(seen.ratios), 0.97);
}

TEST(TurnsModel, FixedSharesAreNotExceeded) {
  const Seen seen = run_mixes("fixed", TurnRule::kFixed);
  EXPECT_LT(mean(seen.errors), 1.5);
  EXPECT_LT(quantile(seen.errors, 0.95), 5);
  EXPECT_GT(mean(seen.ratios), 0.95);
}

TEST(TurnsModel, TheDriverAloneKeepsNoShares) {
  EXPECT_GT(mean(run_mixes("the driver's slices", std::nullopt).errors), 8);
}

}  // namespace
}  // namespace mgpu::plugin::model
