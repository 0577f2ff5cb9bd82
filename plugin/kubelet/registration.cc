#include "plugin/kubelet/registration.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

constexpr int kAnswerBytesMax = 64 * 1024;

}  // namespace

Registration::Registration(RegistrationRequest request)
    : request_(std::move(request)),
      stub_(
          v1beta1::Registration::NewStub(unix_channel(request_.kubelet_socket, kAnswerBytesMax))) {
  v1beta1::RegisterRequest message;
  message.set_version("v1beta1");
  message.set_endpoint(request_.endpoint);
  message.set_resource_name(request_.resource);
  message.mutable_options()->set_pre_start_required(request_.pre_start_required);
  context_.set_deadline(std::chrono::system_clock::now() + kRegisterTimeout);
  reader_ = stub_->AsyncRegister(&context_, message, &queue_);
  reader_->Finish(&empty_, &status_, this);
}

Registration::~Registration() {
  if (!answered_) context_.TryCancel();
  // gRPC requires that a queue is empty before it is destroyed.
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

std::optional<Result<void>> Registration::answer(std::chrono::milliseconds timeout) {
  MGPU_CHECK(!answered_, "an answer is returned once");
  void* tag = nullptr;
  bool ok = false;
  const auto deadline = std::chrono::system_clock::now() + timeout;
  if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
    return std::nullopt;
  }
  answered_ = true;
  if (status_.ok()) return Result<void>();
  return error(fmt::format("kubelet at {} did not register {}: {}",
                           in_quotes(request_.kubelet_socket), request_.resource,
                           status_text(status_)));
}

}  // namespace mgpu::plugin
