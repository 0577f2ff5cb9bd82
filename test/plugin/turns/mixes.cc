#include "test/plugin/turns/mixes.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace mgpu::plugin::model {
namespace {

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

// A grid has some ten blocks for each microsecond of its kernel, or a third or three times as many.
void draw_blocks(Program& program, std::uint64_t seed) {
  Random random(seed);
  for (Kernel& kernel : program.kernels) {
    const double microseconds = static_cast<double>(kernel.duration) / kMicrosecond;
    kernel.blocks = 10 * microseconds * std::exp(random.between(-1.2, 1.2));
  }
}

}  // namespace

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
    draw_blocks(tenant.program, tenant.seed);
    if (tenant.program.kind == Kind::kServe) {
      const double seconds = static_cast<double>(tenant.program.kernels[0].duration) / kSecond;
      tenant.program.rate = tenant.share * random.between(0.3, 0.8) / seconds;
    }
    left -= share;
    mix.push_back(tenant);
  }
  return mix;
}

Alone alone(const Tenant& tenant, Time begin, Time end) {
  Program program = tenant.program;
  program.on = program.off = 0;
  Card card(1, std::make_unique<Gate>());
  card.add(program, tenant.seed);
  const bool serves = program.kind == Kind::kServe;
  // The same requests as in the mix.
  if (serves) card.run(begin);
  const Time from = card.now();
  const Time busy_before = card.busy(0);
  const Time to = serves ? end : kSecond;
  card.run(to);
  const auto part = [&](Time of) {
    return static_cast<double>(of) / static_cast<double>(to - from);
  };
  const double busy = part(card.busy(0) - busy_before);
  // Nobody can use the time between two requests.
  if (serves) return {busy, busy};
  return {busy, std::min(1.0, std::max(busy, part(card.held(0))))};
}

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

}  // namespace mgpu::plugin::model
