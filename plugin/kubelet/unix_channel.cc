#include "plugin/kubelet/unix_channel.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <cctype>
#include <mutex>
#include <string_view>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {
namespace {

constexpr const char* kCodeNames[] = {
    "OK",       "Cancelled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",   "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",      "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated",
};

std::string to_string(grpc::StatusCode code) {
  const auto number = static_cast<std::size_t>(code);
  return number < std::size(kCodeNames) ? kCodeNames[number] : fmt::format("code {}", number);
}

void log_grpc_message(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR)
    log_warn("gRPC error", {{"message", args->message}});
}

void log_protobuf_message(google::protobuf::LogLevel level, const char*, int,
                          const std::string& message) {
  if (level >= google::protobuf::LOGLEVEL_WARNING)
    log_warn("protobuf error", {{"message", message}});
}

bool is_unreserved(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("/._-~").find(c) != std::string_view::npos;
}

}  // namespace

void initialize_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc_init();
    gpr_set_log_function(log_grpc_message);
    google::protobuf::SetLogHandler(log_protobuf_message);
  });
}

std::string unix_target(const std::string& path) {
  std::string target = "unix:";
  for (const char c : path) {
    target += is_unreserved(c) ? std::string(1, c)
                               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return target;
}

std::shared_ptr<grpc::Channel> unix_channel(const std::string& path, int receive_bytes_max) {
  initialize_grpc();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(receive_bytes_max);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Local sockets do not use the proxy of the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel(unix_target(path), grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::string status_text(const grpc::Status& status) {
  const std::string text = json_escaped(status.error_message());
  return fmt::format("{}: {}", to_string(status.error_code()), cut_text(text, kGrpcMessageShown));
}

}  // namespace mgpu::plugin
