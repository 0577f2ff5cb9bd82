#include "bench/latency/measure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/latency/client.h"
#include "bench/latency/limits.h"
#include "common/base/check.h"

namespace mgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Lane {
  const Contestant& who;
  Client client;
  Times times;

  Result<void> context(Requests& requests, bool count);
};

Result<void> Lane::context(Requests& requests, bool count) {
  const std::string_view body = requests.next();
  const auto begun = Clock::now();
  const auto answer = client.post(who.path, body);
  const auto took = Clock::now() - begun;
  if (!answer) return error(who.name + ": " + answer.error().message);
  times.bytes_in = body.size();
  times.bytes_out = answer->size();
  if (count) times.us.push_back(std::chrono::duration<double, std::micro>(took).count());
  return {};
}

Result<std::vector<Lane>> lanes_of(const std::vector<Contestant>& contestants) {
  std::vector<Lane> lanes;
  for (const Contestant& who : contestants) {
    auto client = Client::connect(who.port);
    if (!client) return client.error();
    lanes.push_back({who, std::move(*client), Times{who.name, {}}});
  }
  return lanes;
}

Result<void> take_turns(std::vector<Lane>& lanes, Requests& requests, std::size_t turn,
                        bool count) {
  for (Lane& lane : lanes)
    for (std::size_t i = 0; i < turn; ++i)
      if (auto asked = lane.context(requests, count); !asked) return asked;
  return {};
}

}  // namespace

double Times::percentile(double part) const {
  MGPU_CHECK(!us.empty() && part > 0 && part <= 1, "a percentile of something");
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(us.size())));
  return us[std::max<std::size_t>(rank, 1) - 1];
}

Result<std::vector<Times>> measure(const std::vector<Contestant>& contestants, Requests& requests,
                                   std::size_t count) {
  auto lanes = lanes_of(contestants);
  if (!lanes) return lanes.error();
  const std::size_t warm_up = std::min(count, limits::kWarmUp);
  if (auto warm = take_turns(*lanes, requests, warm_up, false); !warm) return warm.error();
  for (std::size_t left = count; left > 0;) {
    const std::size_t turn = std::min(left, limits::kTurn);
    if (auto took = take_turns(*lanes, requests, turn, true); !took) return took.error();
    left -= turn;
  }
  std::vector<Times> all;
  for (Lane& lane : *lanes) {
    std::ranges::sort(lane.times.us);
    all.push_back(std::move(lane.times));
  }
  return all;
}

}  // namespace mgpu::bench
