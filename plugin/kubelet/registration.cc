#include "plugin/kubelet/registration.h"

#include <deviceplugin.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

constexpr int kAnswerBytesMax = 64 * 1024;

v1beta1::RegisterRequest message_of(const RegistrationRequest& request) {
  v1beta1::RegisterRequest message;
  message.set_version("v1beta1");
  message.set_endpoint(request.endpoint);
  message.set_resource_name(request.resource);
  message.mutable_options()->set_pre_start_required(request.pre_start_required);
  return message;
}

}  // namespace

struct Registration::State {
  std::string socket;
  std::string resource;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  v1beta1::Empty empty;
  grpc::Status status;
  std::unique_ptr<v1beta1::Registration::Stub> stub;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1beta1::Empty>> reader;
  bool answered = false;

  Result<void> outcome() const {
    if (status.ok()) return {};
    return error(fmt::format("kubelet at {} did not register {}: {}", in_quotes(socket), resource,
                             sentence_of(status)));
  }
};

Registration::Registration(const RegistrationRequest& request) : state_(std::make_unique<State>()) {
  state_->socket = request.kubelet_socket;
  state_->resource = request.resource;
  state_->stub =
      v1beta1::Registration::NewStub(unix_channel(request.kubelet_socket, kAnswerBytesMax));
  state_->context.set_deadline(std::chrono::system_clock::now() + kRegisterTimeout);
  state_->reader =
      state_->stub->AsyncRegister(&state_->context, message_of(request), &state_->queue);
  state_->reader->Finish(&state_->empty, &state_->status, state_.get());
}

Registration::~Registration() {
  if (!state_->answered) state_->context.TryCancel();
  state_->queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (state_->queue.Next(&tag, &ok)) {
  }
}

std::optional<Result<void>> Registration::answer(std::chrono::milliseconds patience) {
  MGPU_CHECK(!state_->answered, "an answer is given once");
  void* tag = nullptr;
  bool ok = false;
  const auto until = std::chrono::system_clock::now() + patience;
  const auto next = state_->queue.AsyncNext(&tag, &ok, until);
  if (next != grpc::CompletionQueue::GOT_EVENT) return std::nullopt;
  state_->answered = true;
  return state_->outcome();
}

}  // namespace mgpu::plugin
