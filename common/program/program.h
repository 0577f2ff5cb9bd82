// What the long-running programs have in common: flags, log, API server, signals and exit codes.
//
//   flags --bad value--> exit code 2
//     |  --help, --version--> exit code 0
//     v
//   API server configured --> serve() until SIGTERM or SIGINT --> exit code 0
//     |                         |
//     +----------error----------+--> one sentence on standard error, exit code 1
#pragma once

#include <functional>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/kube/transport.h"

namespace mgpu {

struct ProgramFlags {
  std::string kubeconfig;
  std::string context;
  bool insecure_skip_tls_verify = false;
  std::string log_level = "info";
  std::string log_format = "text";
};

// `flags` holds the default values, and outlives `options`.
void add_api_server_flags(Options& options, ProgramFlags& flags);
void add_log_flags(Options& options, ProgramFlags& flags);

// Opens another connection to the same API server, with an executor of its own. It lives until
// serve() has returned. Errors: those of the first connection.
using Connect = std::function<Result<kube::Transport*>()>;

struct ProgramSteps {
  std::function<void()> log_flags;  // logs the configuration; called once, before serve()
  // Starts the program, calls wait_for_shutdown() and stops the program. The executors of the
  // connections run until serve() has returned.
  std::function<Result<void>(kube::Transport& transport, const Connect& connect)> serve;
};

// The body of main(); returns the exit code. `flags` have been added to `options`. REQUIRES: no
// other thread has been started.
int run_program(int argc, const char* const* argv, const std::string& name, Options& options,
                const ProgramFlags& flags, const ProgramSteps& steps);

// The same for a program that does not use the API server. `serve` calls wait_for_shutdown().
int run_local_program(int argc, const char* const* argv, const std::string& name, Options& options,
                      const ProgramFlags& flags, const std::function<Result<void>()>& serve);

// Makes wait_for_shutdown() return. Changes nothing when it has returned. Any thread.
void request_shutdown();

// Waits for SIGTERM, SIGINT or request_shutdown(). A second signal terminates the process at once,
// and so does the end of kShutdownMax: a part of it may hang. REQUIRES: called from serve().
void wait_for_shutdown();

}  // namespace mgpu
