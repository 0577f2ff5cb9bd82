#include "plugin/kubelet/plugin_server.h"

#include <deviceplugin.grpc.pb.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugin/kubelet/unix_channel.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/support/resource_names.h"

namespace mgpu::plugin {
namespace {

// The connection that kubelet has to a server.
class PluginServerTest : public ::testing::Test {
 protected:
  PluginServerTest() {
    started_ = PluginServer::start(
        {.resource = test::kCore, .folder = folder_.path(), .socket_prefix = "core"}, handlers_,
        feed_, [] {});
    server_ = std::move(*started_);
    stub_ = v1beta1::DevicePlugin::NewStub(
        grpc::CreateChannel(unix_target(folder_.path() + "/" + server_->endpoint()),
                            grpc::InsecureChannelCredentials()));
    stream_ = stub_->ListAndWatch(&context_, {});
    v1beta1::ListAndWatchResponse list;
    listed_ = stream_->Read(&list);
  }
  bool allocates() const {
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids("c0");
    v1beta1::AllocateResponse response;
    grpc::ClientContext context;
    return stub_->Allocate(&context, request, &response).ok();
  }

  test::TemporaryFolder folder_;
  const DevicePluginHandlers handlers_{.allocate = [](const auto&) { return AllocateResponse{}; },
                                       .pre_start = {},
                                       .on_registration = {}};
  DeviceFeed feed_{{"c0"}};
  Result<std::unique_ptr<PluginServer>> started_ = error("not started");
  std::unique_ptr<PluginServer> server_;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1beta1::ListAndWatchResponse>> stream_;
  bool listed_ = false;
};

// Kubelet 1.37 goes on with any of the other servers when one ends.
TEST_F(PluginServerTest, AllocatesUntilItIsDestroyedAfterItsStreamHasEnded) {
  ASSERT_TRUE(listed_);
  server_->stop();
  v1beta1::ListAndWatchResponse list;
  EXPECT_FALSE(stream_->Read(&list));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_TRUE(allocates());
  server_.reset();
  EXPECT_FALSE(allocates());
}

}  // namespace
}  // namespace mgpu::plugin
