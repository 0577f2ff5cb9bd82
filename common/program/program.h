// What a long-running program of ours does whatever its work is: flags, log, API server, signals
// and exit codes.
//
//   flags --wrong--> exit code 2
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

// The flags that every such program has.
struct ProgramFlags {
  std::string kubeconfig;
  std::string context;
  bool insecure_skip_tls_verify = false;
  std::string log_level = "info";
  std::string log_format = "text";
};

// `flags` holds the defaults and outlives `options`' use, here and in the next.
void add_api_server_flags(Options& options, ProgramFlags& flags);
void add_log_flags(Options& options, ProgramFlags& flags);

struct ProgramSteps {
  std::function<void()> log_flags;  // what decides how it runs; once, before anything is begun
  // The work, until wait_for_shutdown() (common/base/signals.h) returns. The transport's executor
  // runs until this has returned. Errors: why it cannot begin or go on.
  std::function<Result<void>(kube::Transport& transport)> serve;
};

// Returns what main() returns. `name` is that of the program; `flags` are among `options`. On the
// main thread, before any other is started.
int run_program(int argc, const char* const* argv, const std::string& name, Options& options,
                const ProgramFlags& flags, const ProgramSteps& steps);

}  // namespace mgpu
