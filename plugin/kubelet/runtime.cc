#include "plugin/kubelet/runtime.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <runtime.grpc.pb.h>

#include "common/base/text.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/runtime_cdi.h"
#include "plugin/kubelet/unix_channel.h"

namespace mgpu::plugin {
namespace {

Error no_answer(const std::string& socket, const char* call, const grpc::Status& status) {
  return error(fmt::format("container runtime at {} did not answer {}: {}", in_quotes(socket), call,
                           sentence_of(status)));
}

std::string shown(const std::string& text) {
  return std::string(cut_text(json_escaped(text), kRuntimeNameBytesShown));
}

}  // namespace

Result<Runtime> ask_runtime(const std::string& socket, const std::string& cdi_dir,
                            std::chrono::milliseconds timeout) {
  const auto until = std::chrono::system_clock::now() + timeout;
  const auto stub = runtime::v1::RuntimeService::NewStub(unix_channel(socket, kRuntimeBytesMax));
  runtime::v1::VersionRequest version_request;
  runtime::v1::VersionResponse version;
  grpc::ClientContext version_context;
  version_context.set_deadline(until);
  const auto named = stub->Version(&version_context, version_request, &version);
  if (!named.ok()) return no_answer(socket, "Version", named);

  runtime::v1::StatusRequest status_request;
  status_request.set_verbose(true);
  runtime::v1::StatusResponse status;
  grpc::ClientContext status_context;
  status_context.set_deadline(until);
  const auto told = stub->Status(&status_context, status_request, &status);
  if (!told.ok()) return no_answer(socket, "Status", told);

  const auto config = status.info().find("config");
  return with_cdi(shown(version.runtime_name()), shown(version.runtime_version()),
                  config == status.info().end() ? std::string() : config->second, cdi_dir);
}

}  // namespace mgpu::plugin
