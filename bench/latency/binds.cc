#include "bench/latency/binds.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "bench/latency/client.h"
#include "bench/latency/limits.h"
#include "bench/latency/measure.h"
#include "bench/latency/requests.h"
#include "bench/scale/cluster_objects.h"

namespace mgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A pod's way through the extender over one connection: a filter with the one node that it will
// get, so that it is known to bind, and then bind.
class Binding {
 public:
  static Result<Binding> connect(Servers& servers) {
    auto client = Client::connect(servers.extender_port());
    if (!client) return client.error();
    return Binding(servers, std::move(*client));
  }

  // How long bind took. Each number only once in a process.
  Result<std::chrono::nanoseconds> run(std::size_t number) {
    const std::string node = node_name(number % (servers_->size().nodes / 4) * 4 + 3);
    const auto filtered = client_.post("/mgpu/filter", filter_one(number, node));
    if (!filtered) return filtered.error();
    const std::string message = bind_one(number, node);
    const auto begun = Clock::now();
    const auto bound = client_.post("/mgpu/bind", message);
    const auto took = Clock::now() - begun;
    if (!bound) return bound.error();
    if (*bound != R"({"Error":""})") return error("bind: " + *bound);
    bytes_in_ = message.size();
    bytes_out_ = bound->size();
    return took;
  }
  void describe(Times& times) const {
    times.bytes_in = bytes_in_;
    times.bytes_out = bytes_out_;
  }

 private:
  Binding(Servers& servers, Client client) : servers_(&servers), client_(std::move(client)) {}

  Servers* servers_;
  Client client_;
  std::size_t bytes_in_ = 0;
  std::size_t bytes_out_ = 0;
};

std::size_t next_number() {
  static std::atomic<std::size_t> last{0};
  return ++last;
}

double in_us(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// One after the other; the API server's own time is taken off each.
Result<Times> own_times(Servers& servers, std::chrono::milliseconds length) {
  auto binding = Binding::connect(servers);
  if (!binding) return binding.error();
  Times times{"extender", {}};
  const auto end = Clock::now() + length;
  for (std::size_t done = 0; Clock::now() < end || times.us.size() < limits::kRequestsLeast;
       ++done) {
    const auto took = binding->run(next_number());
    if (!took) return took.error();
    if (done >= limits::kWarmUp) times.us.push_back(in_us(*took - servers.feed().bind_took()));
  }
  binding->describe(times);
  std::ranges::sort(times.us);
  return times;
}

// One of several connections that bind at an even pace.
class Lane {
 public:
  Lane(Servers& servers, std::chrono::milliseconds length)
      : thread_([this, &servers, length] { run(servers, length); }) {}

  Result<Times> join() {
    thread_.join();
    if (!problem_.empty()) return error(problem_);
    return std::move(times_);
  }

 private:
  void run(Servers& servers, std::chrono::milliseconds length) {
    auto binding = Binding::connect(servers);
    if (!binding) return void(problem_ = binding.error().message);
    constexpr auto kPace =
        std::chrono::nanoseconds(std::chrono::seconds(1)) * limits::kBindLanes / limits::kBindsPerS;
    const auto begun = Clock::now();
    for (auto due = begun; due < begun + length; due += kPace) {
      std::this_thread::sleep_until(due);
      const auto took = binding->run(next_number());
      if (!took) return void(problem_ = took.error().message);
      times_.us.push_back(in_us(*took));
    }
    binding->describe(times_);
  }

  Times times_{"extender", {}};
  std::string problem_;
  std::thread thread_;
};

// `took`: from the first bind to the last.
Result<Times> paced_times(Servers& servers, std::chrono::milliseconds length,
                          std::chrono::duration<double>& took) {
  std::vector<std::unique_ptr<Lane>> lanes;
  const auto begun = Clock::now();
  for (int i = 0; i < limits::kBindLanes; ++i)
    lanes.push_back(std::make_unique<Lane>(servers, length));
  Times all{"extender", {}};
  std::string problem;
  for (const auto& lane : lanes) {
    const auto times = lane->join();
    if (!times) problem = times.error().message;
    if (!times) continue;
    all.us.insert(all.us.end(), times->us.begin(), times->us.end());
    all.bytes_in = times->bytes_in;
    all.bytes_out = times->bytes_out;
  }
  took = Clock::now() - begun;
  if (!problem.empty()) return error(problem);
  std::ranges::sort(all.us);
  return all;
}

Row row_of(const Plan& plan, const Times& times, const char* verb, const std::string& load) {
  return {.name = times.name,
          .nodes = plan.nodes,
          .verb = verb,
          .form = "-",
          .containers = "1",
          .load = load,
          .threads = plan.threads,
          .p50_us = times.percentile(0.5),
          .p99_us = times.percentile(0.99),
          .p999_us = times.percentile(0.999),
          .requests = times.us.size(),
          .bytes_in = times.bytes_in,
          .bytes_out = times.bytes_out};
}

}  // namespace

Result<void> run_binds(const Plan& plan, Servers& servers,
                       const std::function<void(const Row&)>& on_row) {
  const auto own = own_times(servers, plan.length);
  if (!own) return own.error();
  on_row(row_of(plan, *own, "bind-own", "steady"));
  std::chrono::duration<double> took{};
  const auto paced = paced_times(servers, plan.length, took);
  if (!paced) return paced.error();
  const double rate = static_cast<double>(paced->us.size()) / took.count();
  on_row(row_of(plan, *paced, "bind", std::to_string(static_cast<int>(rate)) + "/s"));
  return {};
}

}  // namespace mgpu::bench
