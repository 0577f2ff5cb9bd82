// What all gRPC clients and servers of this folder share. Any thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace mgpu::plugin {

// Must be called before any other use of gRPC. The library stays initialized until the process
// ends: its shutdown, which otherwise follows the destruction of its last object, takes up to 10 s.
// Messages of gRPC and protobuf go to the log.
void initialize_grpc();
// Returns "unix:/path", percent-encoded as a URI requires.
std::string unix_target(const std::string& path);
// The channel connects at the first call. It does not share a connection or a back-off with other
// channels.
std::shared_ptr<grpc::Channel> unix_channel(const std::string& path, int receive_bytes_max);
// Returns "Unavailable: connection refused", truncated to kGrpcMessageShown.
std::string status_text(const grpc::Status& status);

}  // namespace mgpu::plugin
