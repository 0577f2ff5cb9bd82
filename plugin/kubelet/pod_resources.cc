#include "plugin/kubelet/pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <podresources.grpc.pb.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

using Clock = std::chrono::system_clock;  // as for gRPC's deadlines
using List = std::vector<ContainerDevices>;

// A response above kPodResourcesBytesMax has the same code as kubelet's rate limit (kubernetes
// pkg/kubelet/apis/grpc/ratelimit.go).
bool is_rate_limited(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message().find("rate limit") != std::string::npos;
}

Result<List> joined(const v1::ListPodResourcesResponse& response, const std::string& resource) {
  List list;
  for (const v1::PodResources& pod : response.pod_resources()) {
    const PodRef ref{.name_space = pod.namespace_(), .name = pod.name()};
    for (const v1::ContainerResources& container : pod.containers()) {
      std::vector<std::string> ids;
      for (const v1::ContainerDevices& entry : container.devices()) {
        if (entry.resource_name() != resource) continue;
        ids.insert(ids.end(), entry.device_ids().begin(), entry.device_ids().end());
      }
      if (ids.empty()) continue;
      auto devices = DeviceSet::of(ids);
      if (!devices) {
        return error(fmt::format("PodResources: container {} of pod {}: {}",
                                 in_quotes(container.name()), in_quotes(to_string(ref)),
                                 devices.error().message));
      }
      list.push_back({.pod = ref, .container = container.name(), .devices = *std::move(devices)});
    }
  }
  return list;
}

}  // namespace

struct PodResources::State {
  // Calls for one resource. Callers that arrive while a call is in progress share the next call,
  // since the response of the current one may be older than their request.
  struct Calls {
    std::uint64_t started = 0;
    std::uint64_t finished = 0;
    Clock::time_point next;                      // the next one starts at this time or later
    std::shared_ptr<const Result<List>> latest;  // of the last finished call
  };

  explicit State(std::string path) : socket(std::move(path)) {}

  std::shared_ptr<const Result<List>> shared_list(const std::string& resource,
                                                  Clock::time_point deadline);
  grpc::Status call(v1::ListPodResourcesResponse& response, Clock::time_point deadline);

  const std::string socket;
  Mutex mutex;
  ConditionVariable call_finished;
  std::map<std::string, Calls> calls MGPU_GUARDED_BY(mutex);
  std::shared_ptr<grpc::Channel> channel MGPU_GUARDED_BY(mutex);
  std::minstd_rand random MGPU_GUARDED_BY(mutex){std::random_device()()};
};

// Returns null at the deadline.
std::shared_ptr<const Result<List>> PodResources::State::shared_list(const std::string& resource,
                                                                     Clock::time_point deadline) {
  MutexLock lock(mutex);
  Calls& shared = calls[resource];
  const std::uint64_t wanted = shared.started + 1;
  const auto answered = [&] { return shared.finished >= wanted; };
  const auto ready = [&] { return answered() || shared.started == shared.finished; };
  do {
    if (!call_finished.wait_until(lock, deadline, ready)) return nullptr;
    // Callers that arrive now share this call, and one of them may start it first.
    call_finished.wait_until(lock, std::min(deadline, shared.next), answered);
    if (answered()) return shared.latest;
  } while (!ready());
  ++shared.started;
  shared.next = Clock::now() + kPodResourcesPeriod;
  lock.unlock();
  v1::ListPodResourcesResponse response;
  const grpc::Status status = call(response, deadline);
  auto list = std::make_shared<const Result<List>>(
      status.ok() ? joined(response, resource)
                  : error(fmt::format("PodResources at {} did not answer: {}", in_quotes(socket),
                                      status_text(status))));
  lock.lock();
  ++shared.finished;
  shared.latest = list;
  call_finished.notify_all();
  return list;
}

grpc::Status PodResources::State::call(v1::ListPodResourcesResponse& response,
                                       Clock::time_point deadline) {
  bool reconnected = false;
  while (true) {
    MutexLock lock(mutex);
    if (!channel) channel = unix_channel(socket, kPodResourcesBytesMax);
    const std::shared_ptr<grpc::Channel> used = channel;
    lock.unlock();
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const grpc::Status status =
        v1::PodResourcesLister::NewStub(used)->List(&context, {}, &response);
    // kubelet may have restarted since the last call, so one more call is made on a new connection.
    const bool reconnect =
        status.error_code() == grpc::StatusCode::UNAVAILABLE && !std::exchange(reconnected, true);
    const bool retry = reconnect || is_rate_limited(status);
    if (!retry || Clock::now() >= deadline) return status;
    lock.lock();
    if (reconnect) {
      channel.reset();
      continue;
    }
    // Wait for once to twice kPodResourcesRetry.
    std::uniform_int_distribution<std::int64_t> jitter(0, kPodResourcesRetry.count());
    const auto until =
        Clock::now() + kPodResourcesRetry + std::chrono::milliseconds(jitter(random));
    call_finished.wait_until(lock, std::min<Clock::time_point>(deadline, until),
                             [] { return false; });
  }
}

PodResources::PodResources(std::string socket)
    : state_(std::make_shared<State>(std::move(socket))) {}

PodResources::~PodResources() = default;

Result<std::vector<ContainerDevices>> PodResources::list(const std::string& resource,
                                                         std::chrono::milliseconds timeout) {
  const auto list = state_->shared_list(resource, Clock::now() + timeout);
  if (list) return *list;
  return error(fmt::format("PodResources at {} did not answer within {} ms",
                           in_quotes(state_->socket), timeout.count()));
}

}  // namespace mgpu::plugin
