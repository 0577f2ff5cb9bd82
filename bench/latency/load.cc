#include "bench/latency/load.h"

#include <algorithm>
#include <chrono>

#include "bench/latency/client.h"
#include "bench/latency/limits.h"
#include "bench/latency/requests.h"
#include "bench/scale/cluster_objects.h"

namespace mgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Pods at equal intervals, so that the events are distributed over all nodes.
std::vector<std::string> lines_of(ClusterSize size) {
  std::vector<std::string> lines;
  const std::size_t pods = std::min(size.pods, limits::kLoadPods);
  for (std::size_t i = 0; i < pods; ++i) {
    const std::string pod = pod_object(i * (size.pods / pods));
    lines.push_back(watch_line("DELETED", pod));
    lines.push_back(watch_line("ADDED", pod));
  }
  return lines;
}

// The number of a new pod, which is part of its UID. Numbers do not repeat in a process.
std::size_t next_churned_pod() {
  static std::atomic<std::size_t> last{1'000'000};
  return ++last;
}

}  // namespace

Load::Load(Servers& servers, LoadRate rate)
    : servers_(servers),
      rate_(rate),
      lines_(lines_of(servers.size())),
      thread_([this] { run(); }) {}

Load::~Load() {
  ending_ = true;
  thread_.join();
}

void Load::run() {
  auto client = Client::connect(servers_.extender_port());
  if (!client) {
    ++failures_;
    return;
  }
  const auto begun = Clock::now();
  while (!ending_) {
    const double passed = std::chrono::duration<double>(Clock::now() - begun).count();
    while (static_cast<double>(events_) < passed * static_cast<double>(rate_.events_per_s))
      send_event();
    if (static_cast<double>(binds_) < passed * static_cast<double>(rate_.binds_per_s))
      bind_one_pod(*client);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Adds the last deleted pod again, so that the next measurement has the same cluster.
  if (events_ % 2 == 1) send_event();
}

void Load::send_event() {
  servers_.feed().send_pod_line(lines_[events_ % lines_.size()]);
  ++events_;
}

void Load::bind_one_pod(Client& client) {
  const std::size_t number = next_churned_pod();
  const std::string node = node_name(number % (servers_.size().nodes / 4) * 4 + 3);  // an empty one
  const auto filtered = client.post("/mgpu/filter", filter_one(number, node));
  const auto bound = client.post("/mgpu/bind", bind_one(number, node));
  if (!filtered || !bound || *bound != R"({"Error":""})") ++failures_;
  ++binds_;
}

}  // namespace mgpu::bench
