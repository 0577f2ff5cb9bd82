// The commands of kubectl-mgpu, one source each. kubectl runs the program as "kubectl mgpu".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/options.h"
#include "extender/kubectl/console.h"

namespace mgpu::kubectl {

// The exit codes of every command.
inline constexpr int kFine = 0;
inline constexpr int kFoundOrFailed = 1;  // there are findings, or the command failed
inline constexpr int kUsage = 2;          // the command line is wrong

class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  // The values of the flags are in the verb, which outlives `options`.
  virtual void add_flags(Options& options) = 0;
  // Called once, after the flags were read. Returns the exit code.
  virtual int run(Console& console) = 0;
};

// All commands, in the order of the help.
std::vector<std::unique_ptr<Verb>> all_verbs();

std::unique_ptr<Verb> nodes_verb();
std::unique_ptr<Verb> cards_verb();
std::unique_ptr<Verb> pods_verb();
std::unique_ptr<Verb> top_verb();
std::unique_ptr<Verb> explain_verb();
std::unique_ptr<Verb> simulate_verb();
std::unique_ptr<Verb> drift_verb();
std::unique_ptr<Verb> waste_verb();
std::unique_ptr<Verb> cordon_card_verb();
std::unique_ptr<Verb> uncordon_card_verb();
std::unique_ptr<Verb> web_verb();
std::unique_ptr<Verb> doctor_verb();
std::unique_ptr<Verb> convert_verb();
std::unique_ptr<Verb> completion_verb();
std::unique_ptr<Verb> version_verb();

// The body of main(); returns the exit code.
int run_kubectl_mgpu(int argc, const char* const* argv, Console& console);

}  // namespace mgpu::kubectl
