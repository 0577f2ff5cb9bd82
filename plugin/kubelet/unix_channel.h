// What every gRPC client and server of this folder shares. Any thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace mgpu::plugin {

// Before anything else of gRPC: keeps it until the process ends, since its shutdown, which the last
// object of it otherwise waits for, takes up to 10 s (the poller that helps with large writes).
// What it and protobuf complain of goes to our log.
void hold_grpc();
// "unix:/path", with what a URI cannot hold percent-encoded.
std::string unix_target(const std::string& path);
// Connects at the first call, and shares no connection and no back-off with another channel.
std::shared_ptr<grpc::Channel> unix_channel(const std::string& path, int receive_bytes_max);
// "Unavailable: connection refused", cut.
std::string sentence_of(const grpc::Status& status);

}  // namespace mgpu::plugin
