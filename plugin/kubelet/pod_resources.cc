#include "plugin/kubelet/pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <podresources.grpc.pb.h>

#include <map>
#include <random>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

using Clock = std::chrono::system_clock;  // gRPC's deadlines are of it
using List = std::vector<ContainerDevices>;

// kubelet's own limit, as opposed to an answer that is too large for us, which has the same code
// (kubernetes pkg/kubelet/apis/grpc/ratelimit.go).
bool rejected_for_its_rate(const grpc::Status& status) {
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

// Callers of one resource: those that came while a call was in flight share the next one, since the
// answer to the one in flight may be older than what they ask about.
struct Flights {
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::shared_ptr<const Result<List>> latest;  // of the flight `ended`
};

struct PodResources::State {
  explicit State(std::string path) : socket(std::move(path)) {}

  std::shared_ptr<const Result<List>> shared_list(const std::string& resource,
                                                  Clock::time_point until);
  Result<List> list(const std::string& resource, Clock::time_point until);
  grpc::Status ask(v1::ListPodResourcesResponse& response, Clock::time_point until);
  grpc::Status ask_once(v1::ListPodResourcesResponse& response, Clock::time_point until);
  // Some time between once and twice kPodResourcesRetry, and not beyond `until`.
  void pause(Clock::time_point until);

  const std::string socket;
  Mutex mutex;
  ConditionVariable landed;
  std::map<std::string, Flights> flights MGPU_GUARDED_BY(mutex);
  std::shared_ptr<grpc::Channel> channel MGPU_GUARDED_BY(mutex);
  std::minstd_rand random MGPU_GUARDED_BY(mutex){std::random_device()()};
};

std::shared_ptr<const Result<List>> PodResources::State::shared_list(const std::string& resource,
                                                                     Clock::time_point until) {
  MutexLock lock(mutex);
  Flights& mine = flights[resource];
  const std::uint64_t wanted = mine.begun + 1;
  const auto my_turn = [&] { return mine.ended >= wanted || mine.begun == mine.ended; };
  if (!landed.wait_until(lock, until, my_turn)) return nullptr;
  if (mine.ended >= wanted) return mine.latest;
  ++mine.begun;
  lock.unlock();
  auto answer = std::make_shared<const Result<List>>(list(resource, until));
  lock.lock();
  ++mine.ended;
  mine.latest = answer;
  landed.notify_all();
  return answer;
}

Result<List> PodResources::State::list(const std::string& resource, Clock::time_point until) {
  v1::ListPodResourcesResponse response;
  const grpc::Status status = ask(response, until);
  if (status.ok()) return joined(response, resource);
  return error(
      fmt::format("PodResources at {} did not answer: {}", in_quotes(socket), sentence_of(status)));
}

grpc::Status PodResources::State::ask(v1::ListPodResourcesResponse& response,
                                      Clock::time_point until) {
  bool fresh = false;
  while (true) {
    const grpc::Status status = ask_once(response, until);
    const bool again = rejected_for_its_rate(status);
    // kubelet may have been started anew since the last call: one more try, on a new connection.
    const bool anew = status.error_code() == grpc::StatusCode::UNAVAILABLE && !fresh;
    if (Clock::now() >= until || !(again || anew)) return status;
    fresh = fresh || anew;
    if (anew) {
      const MutexLock lock(mutex);
      channel.reset();
    } else {
      pause(until);
    }
  }
}

grpc::Status PodResources::State::ask_once(v1::ListPodResourcesResponse& response,
                                           Clock::time_point until) {
  std::shared_ptr<grpc::Channel> used;
  {
    const MutexLock lock(mutex);
    if (!channel) channel = unix_channel(socket, kPodResourcesBytesMax);
    used = channel;
  }
  grpc::ClientContext context;
  context.set_deadline(until);
  return v1::PodResourcesLister::NewStub(used)->List(&context, {}, &response);
}

void PodResources::State::pause(Clock::time_point until) {
  MutexLock lock(mutex);
  const auto least = kPodResourcesRetry;
  std::uniform_int_distribution<std::int64_t> jitter(0, least.count());
  const auto wake = Clock::now() + least + std::chrono::milliseconds(jitter(random));
  landed.wait_until(lock, std::min(until, wake), [] { return false; });
}

PodResources::PodResources(std::string socket)
    : state_(std::make_shared<State>(std::move(socket))) {}

PodResources::~PodResources() = default;

Result<std::vector<ContainerDevices>> PodResources::list(const std::string& resource,
                                                         std::chrono::milliseconds timeout) {
  const auto state = state_;
  const auto answer = state->shared_list(resource, Clock::now() + timeout);
  if (answer) return *answer;
  return error(fmt::format("PodResources at {} did not answer within {} ms",
                           in_quotes(state->socket), timeout.count()));
}

}  // namespace mgpu::plugin
