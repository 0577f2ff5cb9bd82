// The commands of kubectl-mgpu, one source each. kubectl runs the program as "kubectl mgpu".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/options.h"
#include "common/base/result.h"
#include "extender/kubectl/console.h"

namespace mgpu::kubectl {

// The exit codes of every command.
inline constexpr int kSucceeded = 0;
inline constexpr int kFoundOrFailed = 1;  // there are findings, or the command failed
inline constexpr int kUsage = 2;          // the command line is wrong

// Runs a command once, after its flags were read. Returns the exit code; an error is
// kFoundOrFailed, after its sentence.
using Run = std::function<Result<int>(Console& console)>;

struct Verb {
  std::string name;
  std::string description;
  std::vector<std::string> examples;  // without "kubectl mgpu"
  // Adds the flags of the command. Their values are in the result, which outlives `options`.
  Run (*add)(Options& options);
  bool has_watch = false;  // it has --watch
};

// All commands, in the order of the help.
const std::vector<Verb>& all_verbs();

// For a command with add_flags(options) and run(console).
template <class Command>
Run add_command(Options& options, std::shared_ptr<Command> command = std::make_shared<Command>()) {
  command->add_flags(options);
  return [command](Console& console) { return command->run(console); };
}

Run add_overview(Options& options);
Run add_nodes(Options& options);
Run add_cards(Options& options);
Run add_pods(Options& options);
Run add_top(Options& options);
Run add_explain(Options& options);
Run add_simulate(Options& options);
Run add_drift(Options& options);
Run add_waste(Options& options);
Run add_cordon_card(Options& options);
Run add_uncordon_card(Options& options);
Run add_web(Options& options);
Run add_doctor(Options& options);
Run add_convert(Options& options);
Run add_completion(Options& options);
Run add_version(Options& options);

// The body of main(); returns the exit code.
int run_kubectl_mgpu(int argc, const char* const* argv, Console& console);

}  // namespace mgpu::kubectl
