#include "plugin/kubelet/device_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "plugin/kubelet/plugin_server.h"
#include "plugin/kubelet/registration.h"

namespace mgpu::plugin {

DevicePlugin::DevicePlugin(DevicePluginOptions options, std::vector<std::string> device_ids,
                           DevicePluginHandlers handlers)
    : options_(std::move(options)),
      handlers_(std::move(handlers)),
      kubelet_socket_(options_.folder + "/kubelet.sock"),
      feed_(std::move(device_ids)) {
  MGPU_CHECK(handlers_.allocate, "a device plugin has a handler for Allocate");
  thread_ = std::thread([this] { run(); });
}

DevicePlugin::~DevicePlugin() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void DevicePlugin::run() {
  while (!stopping()) {
    step();
    MutexLock lock(mutex_);
    changed_.wait_for(lock, kPluginPoll,
                      [this]() MGPU_REQUIRES(mutex_) { return notified_ || stopping_; });
    notified_ = false;
  }
  if (leaves_ && accepted_) unregister_quietly();
  end_servers();
}

void DevicePlugin::notify() {
  const MutexLock lock(mutex_);
  notified_ = true;
  changed_.notify_all();
}

bool DevicePlugin::stopping() {
  const MutexLock lock(mutex_);
  return stopping_;
}

void DevicePlugin::step() {
  check_kubelet_socket();
  if (!kubelet_) {
    return report(
        error(fmt::format("kubelet does not run: {} does not exist", in_quotes(kubelet_socket_))));
  }
  if (server_ && !server_->has_socket()) return stop_server();
  if (accepted_) return check_stream();
  if (handlers_.may_register) {
    if (const auto may = handlers_.may_register(); !may) return report(may);
  }
  if (Clock::now() >= next_attempt_) serve_and_register();
}

// kubelet recreates its socket when it starts, after it has removed the sockets of all plugins.
void DevicePlugin::check_kubelet_socket() {
  const auto found = file_identity(kubelet_socket_);
  if (found == kubelet_) return;
  stop_server();
  kubelet_ = found;
  retry_delay_ = kRegisterRetryMin;
  next_attempt_ = Clock::now();
}

void DevicePlugin::check_stream() {
  const auto since = Clock::now() - *accepted_;
  const auto stream = server_->stream();
  registered_ = stream == PluginServer::Stream::kOpen;
  if (registered_) {
    if (since > kRegisterRetryMax) retry_delay_ = kRegisterRetryMin;
    report({});
    if (has_predecessor_) register_again_alone();
    return;
  }
  if (stream == PluginServer::Stream::kNone && since < kRegisterTimeout) return;
  report(error(fmt::format("kubelet does not read the devices of {}", options_.resource)));
  const bool at_once = retry_delay_ == kRegisterRetryMin;
  stop_server();
  if (!at_once) return;
  next_attempt_ = Clock::now();
  notify();
}

void DevicePlugin::serve_and_register() {
  has_predecessor_ = live_sockets(options_.folder, options_.socket_prefix) > 0;
  auto started = PluginServer::start(options_, handlers_, feed_, [this] { notify(); });
  if (!started) {
    report(started.error());
    return stop_server();
  }
  server_ = std::move(*started);
  const auto answer = register_with_kubelet();
  if (answer && *answer) {
    accepted_ = Clock::now();
    return check_stream();
  }
  if (answer) report(*answer);
  stop_server();
}

// Before 1.37, kubelet has one client for each resource. When the stream of any process ends, it
// disconnects the client that it has then, and pods that it admits before the next registration
// fail permanently (devicemanager/plugin/v1beta1/handler.go, runClient). A registration that fails
// makes it forget that client, with which it goes on to work.
void DevicePlugin::unregister_quietly() {
  Registration call({.kubelet_socket = kubelet_socket_,
                     .endpoint = server_->refusing_endpoint(),
                     .resource = options_.resource,
                     .pre_start_required = false});
  static_cast<void>(call.answer(kUnregisterTimeout));
}

// After that kubelet would not notice the end of this process. The first server stays, because the
// end of its stream would disconnect the second one.
void DevicePlugin::register_again_alone() {
  if (live_sockets(options_.folder, options_.socket_prefix) > 1) return;
  first_server_ = std::move(server_);
  serve_and_register();
  has_predecessor_ = false;
}

// Returns nothing if a change of the sockets or the end made the registration useless.
std::optional<Result<void>> DevicePlugin::register_with_kubelet() {
  Registration call({.kubelet_socket = kubelet_socket_,
                     .endpoint = server_->endpoint(),
                     .resource = options_.resource,
                     .pre_start_required = static_cast<bool>(handlers_.pre_start)});
  while (!stopping() && server_->has_socket() && file_identity(kubelet_socket_) == kubelet_) {
    if (auto answer = call.answer(kPluginPoll)) return answer;
  }
  return std::nullopt;
}

// The server stops completely before the next one starts: when kubelet sees the old stream end, it
// removes the plugin that it has for the resource (devicemanager/plugin/v1beta1/handler.go).
void DevicePlugin::stop_server() {
  registered_ = false;
  accepted_.reset();
  end_servers();
  next_attempt_ = Clock::now() + retry_delay_;
  retry_delay_ = std::min(2 * retry_delay_, kRegisterRetryMax);
}

void DevicePlugin::end_servers() {
  for (const auto* server : {&server_, &first_server_}) {
    if (*server) (*server)->stop();
  }
  server_.reset();
  first_server_.reset();
}

void DevicePlugin::report(const Result<void>& outcome) {
  std::string problem = outcome ? std::string() : outcome.error().message;
  if (problem == reported_) return;
  reported_ = std::move(problem);
  if (handlers_.on_registration) handlers_.on_registration(outcome);
}

}  // namespace mgpu::plugin
