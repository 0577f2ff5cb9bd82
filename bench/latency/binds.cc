#include "bench/latency/binds.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
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

constexpr auto kPace = std::chrono::nanoseconds(std::chrono::seconds(1)) / limits::kBindsPerS;
constexpr std::string_view kBound = R"({"Error":""})";

double in_us(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// The number of a new pod. Numbers do not repeat in a process.
std::size_t next_bound_pod() {
  static std::atomic<std::size_t> last{0};
  return ++last;
}

// Binds pods over one connection. Each pod is filtered first with its one node, so that the
// extender has the pod for bind. The echo server gets the same messages.
class Binding {
 public:
  static Result<Binding> connect(Servers& servers, bool echo) {
    auto client = Client::connect(echo ? servers.echo_port() : servers.extender_port());
    if (!client) return client.error();
    servers.echo_bytes(kBound.size());
    return Binding(servers, std::move(*client), echo);
  }

  // Returns the time of one bind, without the time of the API server if `own` is set.
  Result<double> run(bool own) {
    const std::size_t number = next_bound_pod();
    const std::string node = node_name(number % (servers_->size().nodes / 4) * 4 + 3);
    const auto filtered = client_.post("/mgpu/filter", filter_one(number, node));
    if (!filtered) return filtered.error();
    const std::string message = bind_one(number, node);
    const auto begun = Clock::now();
    const auto bound = client_.post(echo_ ? own ? "/echo" : "/late" : "/mgpu/bind", message);
    const auto took = Clock::now() - begun;
    if (!bound) return bound.error();
    if (!echo_ && *bound != kBound) return error("bind: " + *bound);
    return in_us(own && !echo_ ? took - servers_->feed().bind_took() : took);
  }

 private:
  Binding(Servers& servers, Client client, bool echo)
      : servers_(&servers), client_(std::move(client)), echo_(echo) {}

  Servers* servers_;
  Client client_;
  bool echo_;
};

Times no_times(bool echo) {
  return {.name = echo ? "echo" : "extender",
          .us = {},
          .bytes_in = bind_one(0, node_name(0)).size(),
          .bytes_out = kBound.size()};
}

// Measures sequential binds.
Result<Times> own_times(Servers& servers, std::size_t count, bool echo) {
  auto binding = Binding::connect(servers, echo);
  if (!binding) return binding.error();
  Times times = no_times(echo);
  for (std::size_t i = 0; i < count + limits::kWarmUp; ++i) {
    const auto took = binding->run(true);
    if (!took) return took.error();
    if (i >= limits::kWarmUp) times.us.push_back(*took);
  }
  std::ranges::sort(times.us);
  return times;
}

// A thread with one connection that binds at a fixed rate.
class PacedThread {
 public:
  // `first` is when it binds first.
  PacedThread(Servers& servers, Clock::time_point first, std::size_t count, bool echo)
      : thread_([this, &servers, first, count, echo] { run(servers, first, count, echo); }) {}

  Result<std::vector<double>> join() {
    thread_.join();
    if (!problem_.empty()) return error(problem_);
    return std::move(us_);
  }

 private:
  void run(Servers& servers, Clock::time_point due, std::size_t count, bool echo) {
    auto binding = Binding::connect(servers, echo);
    if (!binding) return void(problem_ = binding.error().message);
    for (std::size_t i = 0; i < count; ++i, due += kPace * limits::kBindThreads) {
      std::this_thread::sleep_until(due);
      const auto took = binding->run(false);
      if (!took) return void(problem_ = took.error().message);
      us_.push_back(*took);
    }
  }

  std::vector<double> us_;
  std::string problem_;
  std::thread thread_;
};

// Sets `rate` to the reached number of binds per second.
Result<Times> paced_times(Servers& servers, std::size_t count, bool echo, double& rate) {
  std::vector<std::unique_ptr<PacedThread>> threads;
  const auto begun = Clock::now();
  for (int i = 0; i < limits::kBindThreads; ++i)
    threads.push_back(std::make_unique<PacedThread>(servers, begun + i * kPace,
                                                    count / limits::kBindThreads + 1, echo));
  Times all = no_times(echo);
  std::string problem;
  for (const auto& thread : threads) {
    const auto us = thread->join();
    if (us) all.us.insert(all.us.end(), us->begin(), us->end());
    if (!us) problem = us.error().message;
  }
  const std::chrono::duration<double> took = Clock::now() - begun;
  rate = static_cast<double>(all.us.size()) / took.count();
  if (!problem.empty()) return error(problem);
  std::ranges::sort(all.us);
  return all;
}

Row row_of(const Plan& plan, const Times& times, const Times& echo, const std::string& form,
           const std::string& load) {
  return {.name = times.name,
          .nodes = plan.nodes,
          .verb = "bind",
          .form = form,
          .load = load,
          .threads = plan.threads,
          .p50_us = times.percentile(0.5),
          .p99_us = times.percentile(0.99),
          .p999_us = times.percentile(0.999),
          .requests = times.us.size(),
          .bytes_in = times.bytes_in,
          .bytes_out = times.bytes_out,
          .ratio_to_echo = times.percentile(0.5) / echo.percentile(0.5)};
}

std::string rate_text(double rate) {
  return std::to_string(static_cast<int>(rate + 0.5)) + "/s";
}

}  // namespace

Result<void> run_binds(const Plan& plan, Servers& servers,
                       const std::function<void(const Row&)>& on_row) {
  const auto own = own_times(servers, plan.requests, false);
  if (!own) return own.error();
  const auto echo = own_times(servers, plan.requests, true);
  if (!echo) return echo.error();
  on_row(row_of(plan, *own, *echo, "own time", "steady"));
  on_row(row_of(plan, *echo, *echo, "own time", "steady"));
  double rate = 0;
  double echo_rate = 0;
  const auto paced = paced_times(servers, plan.requests, false, rate);
  if (!paced) return paced.error();
  const auto paced_echo = paced_times(servers, plan.requests, true, echo_rate);
  if (!paced_echo) return paced_echo.error();
  on_row(row_of(plan, *paced, *paced_echo, "API server of 1 ms", rate_text(rate)));
  on_row(row_of(plan, *paced_echo, *paced_echo, "API server of 1 ms", rate_text(echo_rate)));
  return {};
}

}  // namespace mgpu::bench
