#include "plugin/kubelet/device_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/kubelet/device_feed.h"
#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/plugin_server.h"
#include "plugin/kubelet/registration.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

// One thread looks at the files and the stream, and takes one step at a time.
struct DevicePlugin::State {
  State(DevicePluginOptions chosen, std::vector<Device> devices, DevicePluginHandlers given);

  void run();
  void wake();
  void end();

  DevicePluginOptions options;
  DevicePluginHandlers handlers;
  DeviceFeed feed;
  std::atomic<bool> registered = false;
  std::thread thread;

 private:
  bool rest();
  bool ending();
  void step();
  void look_at_kubelet();
  bool server_stays();
  bool still_read();
  void follow_stream();
  void attempt();
  std::optional<Result<void>> register_with_kubelet();
  void retire();
  void report(const Result<void>& outcome);

  const std::string kubelet_socket_;
  Mutex mutex_;
  ConditionVariable wake_;
  bool woken_ MGPU_GUARDED_BY(mutex_) = false;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;

  // Of the thread alone.
  std::optional<FileIdentity> kubelet_;
  std::unique_ptr<PluginServer> server_;
  std::optional<Clock::time_point> accepted_;  // kubelet took the registration
  Clock::time_point next_attempt_;
  Clock::time_point next_probe_;
  milliseconds pause_ = kRegisterRetryMin;
  std::optional<std::string> reported_;  // empty: registered
};

DevicePlugin::State::State(DevicePluginOptions chosen, std::vector<Device> devices,
                           DevicePluginHandlers given)
    : options(std::move(chosen)),
      handlers(std::move(given)),
      feed(std::move(devices)),
      kubelet_socket_(options.folder + "/kubelet.sock") {
  MGPU_CHECK(handlers.allocate, "a device plugin without allocate");
}

void DevicePlugin::State::run() {
  do {
    step();
  } while (rest());
  server_.reset();
}

// Until something may have changed. False: the end.
bool DevicePlugin::State::rest() {
  MutexLock lock(mutex_);
  wake_.wait_for(lock, kPluginPoll, [&]() MGPU_REQUIRES(mutex_) { return woken_ || ending_; });
  woken_ = false;
  return !ending_;
}

void DevicePlugin::State::wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  wake_.notify_all();
}

bool DevicePlugin::State::ending() {
  const MutexLock lock(mutex_);
  return ending_;
}

void DevicePlugin::State::end() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  thread.join();
}

void DevicePlugin::State::step() {
  look_at_kubelet();
  if (!kubelet_) {
    return report(error(fmt::format("kubelet is not there: no {}", in_quotes(kubelet_socket_))));
  }
  if (server_ && !server_stays()) return;
  if (accepted_) return follow_stream();
  if (Clock::now() >= next_attempt_) attempt();
}

// A kubelet that starts makes its socket anew, and removes ours first.
void DevicePlugin::State::look_at_kubelet() {
  const auto found = file_identity(kubelet_socket_);
  if (found == kubelet_) return;
  retire();
  kubelet_ = found;
  pause_ = kRegisterRetryMin;
  next_attempt_ = Clock::now();
}

// False: not this time; whatever there is to do has been done.
bool DevicePlugin::State::server_stays() {
  switch (server_->socket()) {
    case PluginServer::Socket::kOurs:
      return true;
    case PluginServer::Socket::kGone:
      retire();
      return false;
    case PluginServer::Socket::kReplaced:
      break;
  }
  // Another process, most likely our successor: two that took the name from each other would never
  // come to rest. Calls in work go on here.
  registered = false;
  report(error(fmt::format("another process serves {} now", in_quotes(options.socket_name))));
  if (Clock::now() < next_probe_) return false;
  next_probe_ = Clock::now() + kRegisterRetryMax;
  if (!someone_listens(options.folder + "/" + options.socket_name)) retire();
  return false;
}

void DevicePlugin::State::follow_stream() {
  const auto since = Clock::now() - *accepted_;
  const auto stream = server_->stream();
  registered = stream == PluginServer::Stream::kOpen;
  if (registered) {
    if (since > kRegisterRetryMax) pause_ = kRegisterRetryMin;
    return report({});
  }
  if (stream == PluginServer::Stream::kNone && since < kRegisterTimeout) return;
  report(error(fmt::format("kubelet does not read the devices of {}", options.resource)));
  const bool at_once = pause_ == kRegisterRetryMin;
  retire();
  if (!at_once) return;
  next_attempt_ = Clock::now();
  wake();
}

void DevicePlugin::State::attempt() {
  auto started = PluginServer::start(options, handlers, feed, [this] { wake(); });
  if (!started) {
    report(started.error());
    return retire();
  }
  server_ = std::move(*started);
  const auto answer = register_with_kubelet();
  if (answer && *answer) {
    accepted_ = Clock::now();
    return follow_stream();
  }
  if (answer) report(*answer);
  retire();
}

// None: it is of no use any more.
std::optional<Result<void>> DevicePlugin::State::register_with_kubelet() {
  Registration call({.kubelet_socket = kubelet_socket_,
                     .endpoint = options.socket_name,
                     .resource = options.resource,
                     .pre_start_required = static_cast<bool>(handlers.pre_start)});
  while (!ending() && server_->socket() == PluginServer::Socket::kOurs &&
         file_identity(kubelet_socket_) == kubelet_) {
    if (auto answer = call.answer(kPluginPoll)) return answer;
  }
  return std::nullopt;
}

// Ends the server wholly before the next begins: kubelet, when it sees the old stream end, drops
// whatever plugin it knows by the resource's name (devicemanager/plugin/v1beta1/handler.go).
void DevicePlugin::State::retire() {
  registered = false;
  accepted_.reset();
  server_.reset();
  next_attempt_ = Clock::now() + pause_;
  pause_ = std::min(2 * pause_, kRegisterRetryMax);
}

void DevicePlugin::State::report(const Result<void>& outcome) {
  std::string sentence = outcome ? std::string() : outcome.error().message;
  if (sentence == reported_) return;
  reported_ = std::move(sentence);
  if (handlers.on_registration) handlers.on_registration(outcome);
}

DevicePlugin::DevicePlugin(DevicePluginOptions options, std::vector<Device> devices,
                           DevicePluginHandlers handlers)
    : state_(std::make_unique<State>(std::move(options), std::move(devices), std::move(handlers))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

DevicePlugin::~DevicePlugin() {
  state_->end();
}

void DevicePlugin::set_devices(std::vector<Device> devices) {
  state_->feed.set(std::move(devices));
}

bool DevicePlugin::registered() const {
  return state_->registered;
}

}  // namespace mgpu::plugin
