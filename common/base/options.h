// Command lines: one table of flags, each with help, default and validation; parsed once. Home of
// CLI11. Every flag may also come from the environment: --bind-concurrency is
// <PREFIX>_BIND_CONCURRENCY; the command line wins, and an empty variable is none. A flag given
// twice means the later one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/result.h"

namespace mgpu {

// What a program should do after its command line has been read.
struct ParsedOptions {
  bool run = false;  // false: print and end with `exit_code`
  int exit_code = 0;
  // Help, version or the one sentence of an error, with its line end; to standard output when
  // `exit_code` is 0, else to standard error.
  std::string print;
};

class Options {
 public:
  // `environment_prefix` such as "MGPU_EXTENDER"; empty: no environment.
  Options(std::string program, std::string description, std::string environment_prefix);
  ~Options();

  // Names without dashes, "bind-concurrency". Each target holds the default when it is added and
  // outlives parse(). Ranges are inclusive and are part of the help.
  void add_text(const std::string& name, const std::string& help, std::string& target);
  void add_choice(const std::string& name, const std::string& help, std::string& target,
                  const std::vector<std::string>& choices);
  void add_number(const std::string& name, const std::string& help, std::int64_t& target,
                  std::int64_t least, std::int64_t most);
  // "500ms", "2s", "5m".
  void add_duration(const std::string& name, const std::string& help, Duration& target,
                    Duration least, Duration most);
  // "--serve" or "--serve=false"; "true" or "false" in the environment.
  void add_flag(const std::string& name, const std::string& help, bool& target);
  // May be given several times; the environment gives one.
  void add_texts(const std::string& name, const std::string& help,
                 std::vector<std::string>& target);
  // Runs on a value after parsing; the sentence of the error is printed.
  void check(std::function<Result<void>()> check);
  // A subcommand with flags of its own; the parent's are valid beside them. A program that has
  // commands needs one; after parse() its name is in command().
  Options& add_command(const std::string& name, const std::string& description);
  const std::string& command() const;

  // --help and --version are always there. Unknown flags, bad values and failed checks end with
  // exit code 2 and one sentence.
  ParsedOptions parse(int argc, const char* const* argv);

 private:
  struct State;
  explicit Options(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "mgpu <version> (<compiler>)"
std::string version_text();

}  // namespace mgpu
