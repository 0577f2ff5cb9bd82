// Command lines, parsed by CLI11: every flag has a help text, a default and a validation. It can
// also be set by an environment variable, which is <PREFIX>_BIND_CONCURRENCY for
// --bind-concurrency. The command line has precedence over the environment, an empty variable
// counts as unset, and the last value is used where a flag is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mgpu {

// What a program should do after its command line has been read.
struct ParsedOptions {
  bool run = false;  // false: the program prints `print` and exits with `exit_code`
  int exit_code = 0;
  // The help, the version or an error in one line; for standard output if `exit_code` is 0, else
  // for standard error.
  std::string print{};
};

// A flag as it is completed by shells.
struct FlagName {
  std::string name;        // "--output"
  std::string short_name;  // "-o"; may be empty
  std::string help;
  bool takes_value = true;
  std::vector<std::string> choices{};
};

class Options {
 public:
  // Without an `environment_prefix`, such as "MGPU_EXTENDER", no environment variables are read.
  Options(const std::string& program, const std::string& description,
          const std::string& environment_prefix);

  // Names have no dashes in front: "bind-concurrency"; "n,namespace" also has the short form -n.
  // Each target holds the default value when it is added, and outlives parse(). Ranges are
  // inclusive, and the help shows them.
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
  // May be repeated; an environment variable holds one value.
  void add_texts(const std::string& name, const std::string& help,
                 std::vector<std::string>& target);
  // A flag of earlier versions. With it, the program ends with a sentence that says what to do
  // instead: "--plugin-url was removed: <instead>". Neither the help nor completion has it.
  void add_removed(const std::string& name, const std::string& instead);
  // The words on the line that are not flags, from `least` to `most` of them. `name` is "POD", or
  // "NODE..." if there may be several; it is in the help and in errors.
  void add_words(const std::string& name, std::vector<std::string>& target, std::size_t least,
                 std::size_t most);
  // Is called after the flags have been parsed; the program prints the sentence of its error.
  void check(std::function<Result<void>()> check);
  // A subcommand with flags of its own, besides those of the program. A program that has commands
  // needs one of them on its command line; command() is its name after parse().
  // `examples` are shown in its help, each in a line.
  Options& add_command(const std::string& name, const std::string& description,
                       const std::vector<std::string>& examples = {});
  // Shows those of these flags that it has under the heading "Connection:" of the help.
  void show_as_connection(const std::vector<std::string>& names);
  const std::string& command() const { return command_; }

  // The name and description of each command, in the order in which they were added.
  std::vector<std::pair<std::string, std::string>> commands() const;
  // The flags of a command, or of the program for "". Empty if there is no such command.
  std::vector<FlagName> flags_of(const std::string& command) const;
  // What add_words() has named, such as "POD...". Empty if a command takes no words.
  std::string words_of(const std::string& command) const;

  // -h, --help and --version always exist, and "help COMMAND" in a program with commands. Unknown
  // flags, bad values and failed checks result in exit code 2 and one sentence, which names a flag
  // or command that looks like an unknown one.
  ParsedOptions parse(int argc, const char* const* argv);

 private:
  Options(std::shared_ptr<CLI::App> app, const std::string& environment_prefix);
  CLI::Option& add(const std::string& name, const std::string& help, const std::string& about,
                   std::function<bool(const std::vector<std::string>&)> set);
  template <class T, class Read>
  CLI::Option& add_value(const std::string& name, const std::string& help, const std::string& about,
                         T& target, const std::string& expected, Read read);

  // "; did you mean "nodes"?" for "nods"; empty if nothing looks like it.
  std::string nearest_to(const std::string& word) const;

  std::shared_ptr<CLI::App> app_;  // of the program, or of a command
  std::string environment_prefix_;
  std::vector<FlagName> flags_;
  std::string words_;  // the name of add_words()
  std::vector<std::function<Result<void>()>> checks_;
  std::vector<std::unique_ptr<Options>> commands_;
  std::string command_;
};

// "mgpu <version> (commit <commit>, <compiler>)"
std::string version_text();

}  // namespace mgpu
