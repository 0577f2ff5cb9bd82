#include "plugin/kubelet/plugin_service.h"

#include <fmt/format.h>
#include <malloc.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/allocation/limits.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {
namespace {

using grpc::Status;
using grpc::StatusCode;
using Stream = PluginServer::Stream;

// Counts one call while it lasts.
class Place {
 public:
  Place(std::atomic<int>& taken, int places) : taken_(taken), free_(++taken <= places) {}
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  bool free() const { return free_; }

 private:
  std::atomic<int>& taken_;
  bool free_;
};

template <class Ids>
std::vector<std::string> texts(const Ids& ids) {
  return {ids.begin(), ids.end()};
}

Status refusal(const Error& error) {
  return {StatusCode::FAILED_PRECONDITION, std::string(cut_text(error.message, kGrpcMessageShown))};
}

void write(const AllocateResponse& allocated, v1beta1::ContainerAllocateResponse& response) {
  for (const auto& [name, value] : allocated.edits.environment) {
    (*response.mutable_envs())[name] = value;
  }
  for (const Mount& mount : allocated.edits.mounts) {
    v1beta1::Mount& added = *response.add_mounts();
    added.set_host_path(mount.host_path);
    added.set_container_path(mount.container_path);
    added.set_read_only(mount.read_only);
  }
  for (const DeviceNode& node : allocated.edits.devices) {
    v1beta1::DeviceSpec& added = *response.add_devices();
    added.set_host_path(node.host_path);
    added.set_container_path(node.path);
    added.set_permissions("rw");
  }
  for (const std::string& name : allocated.cdi_devices) response.add_cdi_devices()->set_name(name);
}

v1beta1::ListAndWatchResponse list_message(const std::vector<Device>& devices) {
  v1beta1::ListAndWatchResponse message;
  message.mutable_devices()->Reserve(static_cast<int>(devices.size()));
  for (const Device& device : devices) {
    v1beta1::Device& added = *message.add_devices();
    added.set_id(device.id);
    added.set_health(device.healthy ? "Healthy" : "Unhealthy");
  }
  return message;
}

// Whether the stream goes on.
bool send_list(const std::vector<Device>& devices,
               grpc::ServerWriter<v1beta1::ListAndWatchResponse>& writer) {
  const v1beta1::ListAndWatchResponse message = list_message(devices);
  const std::size_t bytes = message.ByteSizeLong();
  if (bytes > kDeviceListBytesMax) {
    log_error("device list not sent: kubelet would drop the plugin",
              {{"devices", std::to_string(devices.size())},
               {"bytes", std::to_string(bytes)},
               {"bytes_max", std::to_string(kDeviceListBytesMax)}});
    return true;
  }
  return writer.Write(message);
}

}  // namespace

PluginService::PluginService(const DevicePluginHandlers& handlers, DeviceFeed& feed,
                             std::function<void()> changed)
    : handlers_(handlers), feed_(feed), changed_(std::move(changed)) {}

void PluginService::end() {
  ending_ = true;
  feed_.wake();
}

void PluginService::become(Stream stream) {
  stream_ = stream;
  changed_();
}

Status PluginService::GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                             v1beta1::DevicePluginOptions* response) {
  response->set_pre_start_required(static_cast<bool>(handlers_.pre_start));
  return Status::OK;
}

Status PluginService::ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                                   grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) {
  const Place place(streams_, kListStreamsMax);
  if (!place.free()) {
    return {StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("{} streams read the list already", kListStreamsMax)};
  }
  become(Stream::kOpen);
  const Status status = send_lists(*context, *writer);
  become(Stream::kEnded);
  return status;
}

Status PluginService::send_lists(grpc::ServerContext& context,
                                 grpc::ServerWriter<v1beta1::ListAndWatchResponse>& writer) {
  std::uint64_t sent = 0;
  while (const auto version = feed_.next(sent, [&] { return ending_ || context.IsCancelled(); })) {
    if (!send_list(*version->devices, writer)) break;
    sent = version->number;
    // A list of 1-MiB devices takes tens of megabytes while it is sent.
    if (version->devices->size() > kDevicesPerRequestMax) ::malloc_trim(0);
  }
  return Status::OK;
}

Status PluginService::Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* request,
                               v1beta1::AllocateResponse* response) {
  if (request->container_requests().empty()) {
    return {StatusCode::INVALID_ARGUMENT, "container_requests is empty; one was expected"};
  }
  for (const auto& container : request->container_requests()) {
    const auto allocated = handlers_.allocate(texts(container.devices_ids()));
    if (!allocated) return refusal(allocated.error());
    write(*allocated, *response->add_container_responses());
  }
  return Status::OK;
}

Status PluginService::PreStartContainer(grpc::ServerContext* context,
                                        const v1beta1::PreStartContainerRequest* request,
                                        v1beta1::PreStartContainerResponse*) {
  if (!handlers_.pre_start) return {StatusCode::UNIMPLEMENTED, "PreStartContainer is not offered"};
  // Bounded below the server's threads, so that one is always left for Allocate: kubelet fails a
  // pod for good when Allocate is refused.
  const Place place(pre_starts_, kPluginThreadsMax);
  if (!place.free()) {
    return {StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("{} containers are being prepared already", kPluginThreadsMax)};
  }
  const auto cancelled = [&] { return ending_ || context->IsCancelled(); };
  const auto prepared = handlers_.pre_start(texts(request->devices_ids()), cancelled);
  return prepared ? Status::OK : refusal(prepared.error());
}

}  // namespace mgpu::plugin
