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

struct Connection {
  const Target& target;
  Client client;
  Times times;

  Result<void> send(Requests& requests, bool measured);
};

Result<void> Connection::send(Requests& requests, bool measured) {
  const std::string_view body = requests.next();
  const auto begun = Clock::now();
  const auto answer = client.post(target.path, body);
  const auto took = Clock::now() - begun;
  if (!answer) return error(target.name + ": " + answer.error().message);
  times.bytes_in = body.size();
  times.bytes_out = answer->size();
  if (measured) times.us.push_back(std::chrono::duration<double, std::micro>(took).count());
  return {};
}

Result<std::vector<Connection>> connect_to(const std::vector<Target>& targets) {
  std::vector<Connection> connections;
  for (const Target& target : targets) {
    auto client = Client::connect(target.port);
    if (!client) return client.error();
    connections.push_back({target, std::move(*client), Times{target.name, {}}});
  }
  return connections;
}

Result<void> take_turns(std::vector<Connection>& connections, Requests& requests, std::size_t turn,
                        bool measured) {
  for (Connection& connection : connections)
    for (std::size_t i = 0; i < turn; ++i)
      if (auto sent = connection.send(requests, measured); !sent) return sent;
  return {};
}

}  // namespace

double Times::percentile(double part) const {
  MGPU_CHECK(!us.empty() && part > 0 && part <= 1, "a percentile of at least one time");
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(us.size())));
  return us[std::max<std::size_t>(rank, 1) - 1];
}

Result<std::vector<Times>> measure(const std::vector<Target>& targets, Requests& requests,
                                   std::size_t count) {
  auto connections = connect_to(targets);
  if (!connections) return connections.error();
  const std::size_t warm_up = std::min(count, limits::kWarmUp);
  if (auto warm = take_turns(*connections, requests, warm_up, false); !warm) return warm.error();
  for (std::size_t left = count; left > 0;) {
    const std::size_t turn = std::min(left, limits::kTurn);
    if (auto took = take_turns(*connections, requests, turn, true); !took) return took.error();
    left -= turn;
  }
  std::vector<Times> all;
  for (Connection& connection : *connections) {
    std::ranges::sort(connection.times.us);
    all.push_back(std::move(connection.times));
  }
  return all;
}

}  // namespace mgpu::bench
