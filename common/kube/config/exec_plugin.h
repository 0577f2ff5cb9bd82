// Runs the credential plugin of a user and keeps what it has printed.
//
//   Valid --expirationTimestamp, or refused by the server--> Running --> Valid
//                                                              | failure
//                                                              v
//                                        Failed --after kExecRetryInterval, at the next request-->
//                                        Running
//
// The first run is in create(). Others are on a thread of their own, because a plugin may take
// long, and requests wait for them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/kube/config/config.h"
#include "common/kube/config/exec_credential.h"

namespace mgpu::kube {

// On the executor, except for create() and the destructor.
class ExecPlugin {
 public:
  // Runs the plugin, and waits for its end. `on_change` is called on the executor after each later
  // run. Errors: one sentence with the name of the plugin, which contains no part of a credential.
  // REQUIRES: config.exec. `executor` outlives the plugin.
  static Result<std::unique_ptr<ExecPlugin>> create(const Config& config, Executor& executor,
                                                    Task on_change);
  // Ends a plugin that is running. No callback runs afterwards.
  ~ExecPlugin();

  enum class State { kValid, kRunning, kFailed };
  // Starts the plugin if its credential has expired.
  State state();
  // The last credential. REQUIRES: not kFailed.
  std::shared_ptr<const ExecCredential> credential() const { return credential_; }
  // Why the last run failed.
  const std::string& failure() const { return failure_; }
  // The server has answered 401 to `refused`. True: there is, or will be, another credential.
  bool replaced(const std::shared_ptr<const ExecCredential>& refused);

 private:
  ExecPlugin(const Config& config, Executor& executor, Task on_change);

  Result<ExecCredential> run() const;
  void start();
  void use(Result<ExecCredential> result);

  const Config config_;
  Executor& executor_;
  const Task on_change_;
  std::shared_ptr<const ExecCredential> credential_;
  std::optional<Instant> expires_;
  std::string failure_;  // empty: the last run has succeeded
  Instant ended_{};      // the last run
  bool running_ = false;
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;       // of the last run
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::kube
