#include "plugin/kubelet/plugin_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {
namespace {

using grpc::Status;
using grpc::StatusCode;

// Counts a call while it runs. It is `accepted` if at most `limit` calls run.
class CallSlot {
 public:
  CallSlot(std::atomic<int>& running, int limit)
      : running_(running), accepted_(++running_ <= limit) {}
  ~CallSlot() { --running_; }
  CallSlot(const CallSlot&) = delete;
  CallSlot& operator=(const CallSlot&) = delete;

  bool accepted() const { return accepted_; }

 private:
  std::atomic<int>& running_;
  const bool accepted_;
};

// An annotation of the container, by which runtimes get the names of CDI devices as well
// (container-device-interface pkg/cdi/annotations.go). Kubelet drops `cdi_devices` before 1.28, and
// in 1.28 unless the feature gate DevicePluginCDIDevices is on. Runtimes add a device that has both
// once.
constexpr char kCdiAnnotation[] = "cdi.k8s.io/mgpu-device-plugin";

template <class Ids>
std::vector<std::string> texts(const Ids& ids) {
  return {ids.begin(), ids.end()};
}

Status status_of(const Error& error) {
  return {StatusCode::FAILED_PRECONDITION, std::string(cut_text(error.message, kGrpcMessageShown))};
}

void write(const AllocateResponse& allocated, v1beta1::ContainerAllocateResponse& response) {
  for (const auto& [name, value] : allocated.environment) (*response.mutable_envs())[name] = value;
  for (const std::string& name : allocated.cdi_devices) response.add_cdi_devices()->set_name(name);
  if (!allocated.cdi_devices.empty()) {
    (*response.mutable_annotations())[kCdiAnnotation] =
        fmt::format("{}", fmt::join(allocated.cdi_devices, ","));
  }
}

Status allocate_all(const DevicePluginHandlers& handlers, const v1beta1::AllocateRequest& request,
                    v1beta1::AllocateResponse& response) {
  if (request.container_requests().empty()) {
    return {StatusCode::INVALID_ARGUMENT, "container_requests is empty"};
  }
  for (const auto& container : request.container_requests()) {
    const auto allocated = handlers.allocate(texts(container.devices_ids()));
    if (!allocated) return status_of(allocated.error());
    write(*allocated, *response.add_container_responses());
  }
  return Status::OK;
}

// Returns whether the stream is still open.
bool send_list(const std::vector<std::string>& ids,
               grpc::ServerWriter<v1beta1::ListAndWatchResponse>& writer) {
  v1beta1::ListAndWatchResponse message;
  message.mutable_devices()->Reserve(static_cast<int>(ids.size()));
  for (const std::string& id : ids) {
    v1beta1::Device& added = *message.add_devices();
    added.set_id(id);
    added.set_health("Healthy");
  }
  const std::size_t bytes = message.ByteSizeLong();
  if (bytes <= kDeviceListBytesMax) return writer.Write(message);
  log_error("device list not sent, since it exceeds kubelet's message size limit",
            {{"devices", std::to_string(ids.size())},
             {"bytes", std::to_string(bytes)},
             {"bytes_max", std::to_string(kDeviceListBytesMax)}});
  return true;
}

}  // namespace

PluginService::PluginService(const DevicePluginHandlers& handlers, DeviceFeed& feed,
                             std::function<void()> changed)
    : handlers_(handlers), feed_(feed), changed_(std::move(changed)) {}

void PluginService::stop() {
  stopping_ = true;
  feed_.notify();
}

void PluginService::set_stream(Stream stream) {
  {
    const MutexLock lock(mutex_);
    stream_ = stream;
    calls_changed_.notify_all();
  }
  changed_();
}

Status PluginService::GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                             v1beta1::DevicePluginOptions* response) {
  if (refuses_registration_) return {StatusCode::UNAVAILABLE, "another process serves now"};
  response->set_pre_start_required(static_cast<bool>(handlers_.pre_start));
  return Status::OK;
}

Status PluginService::ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                                   grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) {
  const CallSlot slot(streams_, kListStreamsMax);
  if (!slot.accepted()) {
    return {StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("there are {} ListAndWatch streams already", kListStreamsMax)};
  }
  set_stream(Stream::kOpen);
  const auto cancelled = [&] { return stopping_ || context->IsCancelled(); };
  std::uint64_t sent = 0;
  while (const auto version = feed_.next(sent, cancelled)) {
    if (!send_list(*version->ids, *writer)) break;
    sent = version->number;
    // A list of 1-MiB devices needs tens of megabytes while it is sent.
    if (version->ids->size() > kDevicesPerRequestMax) ::malloc_trim(0);
  }
  ended_stream_ = stopping_ && !context->IsCancelled();
  if (ended_stream_) wait_for_quiet();
  set_stream(Stream::kEnded);
  return Status::OK;
}

// When a stream ends, kubelet closes the connection (devicemanager/plugin/v1beta1/handler.go), and
// an Allocate in progress fails its pod permanently.
void PluginService::wait_for_quiet() {
  MutexLock lock(mutex_);
  const auto runs = [this]() MGPU_REQUIRES(mutex_) { return allocating_ > 0; };
  const auto ended = [this]() MGPU_REQUIRES(mutex_) { return allocating_ == 0; };
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + kPluginShutdownTimeout;
  while (Clock::now() < deadline && calls_changed_.wait_until(lock, deadline, ended) &&
         calls_changed_.wait_for(lock, kAllocateQuiet, runs)) {
  }
}

void PluginService::wait_for_end() {
  {
    MutexLock lock(mutex_);
    calls_changed_.wait_for(lock, kPluginShutdownTimeout,
                            [this] { return stream_ != Stream::kOpen; });
  }
  if (ended_stream_) wait_for_quiet();
}

void PluginService::count_allocate(int change) {
  const MutexLock lock(mutex_);
  allocating_ += change;
  calls_changed_.notify_all();
}

Status PluginService::Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* request,
                               v1beta1::AllocateResponse* response) {
  count_allocate(1);
  Status status = allocate_all(handlers_, *request, *response);
  count_allocate(-1);
  return status;
}

Status PluginService::PreStartContainer(grpc::ServerContext* context,
                                        const v1beta1::PreStartContainerRequest* request,
                                        v1beta1::PreStartContainerResponse*) {
  if (!handlers_.pre_start) return {StatusCode::UNIMPLEMENTED, "PreStartContainer is not required"};
  // The limit is below the number of threads, so that one is always free for Allocate: kubelet
  // fails a pod permanently when Allocate fails.
  const CallSlot slot(pre_starts_, kPreStartCallsMax);
  if (!slot.accepted()) {
    return {StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("{} PreStartContainer calls are in progress already", kPreStartCallsMax)};
  }
  const auto cancelled = [&] { return stopping_ || context->IsCancelled(); };
  const auto prepared = handlers_.pre_start(texts(request->devices_ids()), cancelled);
  return prepared ? Status::OK : status_of(prepared.error());
}

}  // namespace mgpu::plugin
