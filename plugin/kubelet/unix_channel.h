// What every gRPC client and server of this folder shares. Any thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace mgpu::kubelet {

// Complaints of gRPC and protobuf themselves go to our log from here on.
void log_grpc();
// "unix:/path", with what a URI cannot hold percent-encoded.
std::string unix_target(const std::string& path);
// Connects at the first call, and shares no connection and no back-off with another channel.
std::shared_ptr<grpc::Channel> unix_channel(const std::string& path, int receive_bytes_max);
// "Unavailable: connection refused", cut.
std::string sentence_of(const grpc::Status& status);

}  // namespace mgpu::kubelet
