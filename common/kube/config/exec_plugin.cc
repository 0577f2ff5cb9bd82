#include "common/kube/config/exec_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

Result<bool> is_interactive(const ExecConfig& exec) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (exec.interactive != ExecConfig::Interactive::kAlways || terminal) {
    return terminal && exec.interactive != ExecConfig::Interactive::kNever;
  }
  return error("its interactiveMode is Always, and standard input is not a terminal");
}

Result<std::string> ca_text(const Config& config) {
  if (!config.exec->provide_cluster_info || config.ca.file.empty()) return config.ca.pem;
  return read_file(config.ca.file, kCredentialFileBytesMax, "certificate authority");
}

// For an error sentence.
std::string shown(std::string_view text) {
  return json_escaped(cut_text(text, kExecTextShown));
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text.substr(text.rfind('\n') + 1);
}

Result<ExecCredential> checked(const ProgramResult& result, const ExecConfig& exec) {
  if (!result.exit.empty()) {
    const std::string why = last_line(result.err);
    return error(why.empty() ? result.exit : fmt::format("{}, {}", result.exit, shown(why)));
  }
  auto credential = read_exec_credential(result.out, exec.api_version);
  if (!credential || credential->certificate.empty()) return credential;
  Config identity;
  identity.client_certificate = credential->certificate;
  identity.client_key = credential->key;
  if (auto pair = check_credentials(identity); !pair) return pair.error();
  return credential;
}

Result<ExecCredential> run_exec(const Config& config, const std::atomic<bool>& cancelled) {
  const ExecConfig& exec = *config.exec;
  const auto interactive = is_interactive(exec);
  if (!interactive) return interactive.error();
  const auto ca = ca_text(config);
  if (!ca) return ca.error();
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ProgramCall call{.path = exec.command, .arguments = exec.arguments, .variables = exec.variables};
  call.variables.push_back("KUBERNETES_EXEC_INFO=" + exec_info(config, *ca, *interactive));
  call.in = *interactive ? STDIN_FILENO : nothing.number();
  // The user reads the prompts of the plugin.
  if (*interactive) call.err = STDERR_FILENO;
  call.new_session = !*interactive;
  const auto result = run_for_output(
      std::move(call), kExecOutputBytesMax,
      *interactive ? Duration(kExecInteractiveTimeout) : Duration(kExecTimeout), cancelled);
  if (result) return checked(*result, exec);
  const bool missing = result.error().message.starts_with("cannot start ");
  if (!missing || exec.install_hint.empty()) return result.error();
  return error(fmt::format("{}; {}", result.error().message, shown(exec.install_hint)));
}

}  // namespace

ExecPlugin::ExecPlugin(const Config& config, Executor& executor, Task on_change)
    : config_(config), executor_(executor), on_change_(std::move(on_change)) {}

ExecPlugin::~ExecPlugin() {
  callbacks_.close();
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<ExecPlugin>> ExecPlugin::create(const Config& config, Executor& executor,
                                                       Task on_change) {
  std::unique_ptr<ExecPlugin> plugin(new ExecPlugin(config, executor, std::move(on_change)));
  plugin->use(plugin->run());
  if (!plugin->failure_.empty()) return error(plugin->failure_);
  return plugin;
}

Result<ExecCredential> ExecPlugin::run() const {
  auto credential = run_exec(config_, cancelled_);
  if (credential) return credential;
  return error(fmt::format("credential plugin {}: {}", in_quotes(config_.exec->command),
                           credential.error().message));
}

// A credential that has expired already, which may be due to a wrong clock, is used for a while.
void ExecPlugin::use(Result<ExecCredential> result) {
  ended_ = executor_.now();
  failure_ = result ? "" : result.error().message;
  if (!result) return;
  expires_.reset();
  if (result->expires) {
    const auto left =
        std::chrono::floor<Duration>(*result->expires - std::chrono::system_clock::now());
    expires_ = ended_ + std::max<Duration>(left, kExecRetryInterval);
  }
  credential_ = std::make_shared<const ExecCredential>(*std::move(result));
}

ExecPlugin::State ExecPlugin::state() {
  if (running_) return State::kRunning;
  const Instant now = executor_.now();
  if (failure_.empty() && (!expires_ || now < *expires_)) return State::kValid;
  if (!failure_.empty() && now - ended_ < kExecRetryInterval) return State::kFailed;
  start();
  return State::kRunning;
}

bool ExecPlugin::replaced(const std::shared_ptr<const ExecCredential>& refused) {
  if (running_ || refused != credential_) return true;
  if (executor_.now() - ended_ < kExecRetryInterval) return false;
  start();
  return true;
}

void ExecPlugin::start() {
  running_ = true;
  if (thread_.joinable()) thread_.join();  // it has posted its result, and ends
  auto done = callbacks_.wrap([this](Result<ExecCredential>& result) {
    running_ = false;
    use(std::move(result));
    executor_.post(on_change_);
  });
  thread_ = std::thread([this, done = std::move(done)] {
    auto result = std::make_shared<Result<ExecCredential>>(run());
    executor_.post([done, result]() mutable { done(*result); });
  });
}

}  // namespace mgpu::kube
