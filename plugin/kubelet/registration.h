// One call of kubelet's Registration.Register.
#pragma once

#include <deviceplugin.grpc.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace mgpu::plugin {

struct RegistrationRequest {
  std::string kubelet_socket;
  std::string endpoint;  // name of the plugin's socket in the same folder
  std::string resource;
  bool pre_start_required = false;
};

// One thread. During the call kubelet connects to the plugin's socket and asks for its options.
class Registration {
 public:
  // Sends the request, which is limited to kRegisterTimeout.
  explicit Registration(RegistrationRequest request);
  // Cancels the call if it is in progress.
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Returns kubelet's answer, or nothing after `timeout`. Not to be called after an answer.
  std::optional<Result<void>> answer(std::chrono::milliseconds timeout);

 private:
  const RegistrationRequest request_;
  const std::unique_ptr<v1beta1::Registration::Stub> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  v1beta1::Empty empty_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1beta1::Empty>> reader_;
  bool answered_ = false;
};

}  // namespace mgpu::plugin
