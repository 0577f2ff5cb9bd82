// kubelet's calls, checked and handed on as values. gRPC's threads call it.
#pragma once

#include <deviceplugin.grpc.pb.h>

#include <atomic>
#include <functional>

#include "plugin/kubelet/device_feed.h"
#include "plugin/kubelet/device_plugin.h"
#include "plugin/kubelet/plugin_server.h"

namespace mgpu::plugin {

class PluginService final : public v1beta1::DevicePlugin::Service {
 public:
  // `changed` is called when stream() changes.
  PluginService(const DevicePluginHandlers& handlers, DeviceFeed& feed,
                std::function<void()> changed);

  // Ends streams and tells PreStarts that they are cancelled.
  void end();
  PluginServer::Stream stream() const { return stream_; }

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
  void become(PluginServer::Stream stream);
  grpc::Status send_lists(grpc::ServerContext& context,
                          grpc::ServerWriter<v1beta1::ListAndWatchResponse>& writer);

  const DevicePluginHandlers& handlers_;
  DeviceFeed& feed_;
  std::function<void()> changed_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> streams_ = 0;
  std::atomic<int> pre_starts_ = 0;
  std::atomic<PluginServer::Stream> stream_ = PluginServer::Stream::kNone;
};

}  // namespace mgpu::plugin
