// The gRPC service of a device plugin: checks kubelet's calls and passes them on as values. Called
// on gRPC's threads.
#pragma once

#include <deviceplugin.grpc.pb.h>

#include <atomic>
#include <functional>

#include "common/base/mutex.h"
#include "plugin/kubelet/device_feed.h"
#include "plugin/kubelet/device_plugin.h"

namespace mgpu::plugin {

class PluginService final : public v1beta1::DevicePlugin::Service {
 public:
  // State of ListAndWatch: not called yet, open, or ended by kubelet.
  enum class Stream { kNone, kOpen, kEnded };

  // Both references outlive the service. `changed` is called when stream() changes.
  PluginService(const DevicePluginHandlers& handlers, DeviceFeed& feed,
                std::function<void()> changed);

  // Cancels PreStartContainer calls, and ends the streams after the Allocate calls in progress.
  void stop();
  // Waits, after stop(), until the stream has ended and kubelet calls Allocate no more. Does not
  // wait if kubelet has ended the stream itself: pods fail until the next registration.
  void wait_for_end();
  Stream stream() const { return stream_; }
  // Makes GetDevicePluginOptions fail from now on, so that kubelet does not register this server
  // again.
  void refuse_registration() { refuses_registration_ = true; }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* context, const v1beta1::Empty* request,
                                      v1beta1::DevicePluginOptions* response) override;
  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* request,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override;
  grpc::Status Allocate(grpc::ServerContext* context, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override;
  grpc::Status PreStartContainer(grpc::ServerContext* context,
                                 const v1beta1::PreStartContainerRequest* request,
                                 v1beta1::PreStartContainerResponse* response) override;

 private:
  void set_stream(Stream stream);
  void count_allocate(int change);
  void wait_for_quiet();

  const DevicePluginHandlers& handlers_;
  DeviceFeed& feed_;
  const std::function<void()> changed_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> ended_stream_ = false;
  std::atomic<bool> refuses_registration_ = false;
  std::atomic<int> streams_ = 0;
  std::atomic<int> pre_starts_ = 0;
  std::atomic<Stream> stream_ = Stream::kNone;
  Mutex mutex_;
  ConditionVariable calls_changed_;
  int allocating_ MGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace mgpu::plugin
