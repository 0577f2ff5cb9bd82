// kubectl mgpu completion
#include "extender/kubectl/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

constexpr const char* kNoFiles = ":4\n";
constexpr const char* kFiles = ":0\n";

constexpr const char* kBash =
    R"sh(# Completion of kubectl-mgpu for bash: source <(kubectl mgpu completion bash)
_kubectl_mgpu() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :0) compopt -o default 2>/dev/null ;;
      :*) ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <(kubectl-mgpu __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _kubectl_mgpu kubectl-mgpu
)sh";

constexpr const char* kZsh = R"sh(#compdef kubectl-mgpu
# Completion of kubectl-mgpu for zsh: source <(kubectl mgpu completion zsh)
_kubectl_mgpu() {
  local line
  local -a proposals
  for line in ${(f)"$(kubectl-mgpu __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      (:0) _files ;;
      (:*) ;;
      (*) proposals+=("${line/$'\t'/:}") ;;
    esac
  done
  (( ${#proposals} )) && _describe 'kubectl mgpu' proposals
}
if (( ${+functions[compdef]} )); then
  compdef _kubectl_mgpu kubectl-mgpu
fi
)sh";

constexpr const char* kFish =
    R"sh(# Completion of kubectl-mgpu for fish: kubectl mgpu completion fish | source
function __kubectl_mgpu
  set -l words (commandline -opc)
  set -l last (commandline -ct)
  kubectl-mgpu __complete $words[2..-1] "$last" 2>/dev/null | string match -v ':*'
end
complete -c kubectl-mgpu -f -a '(__kubectl_mgpu)'
complete -c kubectl-mgpu -s f -l filename -r -F
)sh";

constexpr const char* kKubectl = R"sh(#!/bin/sh
# kubectl 1.26 and later calls this program for the completion of "kubectl mgpu", in every shell for
# which kubectl has completion. It must be executable, in $PATH, and named kubectl_complete-mgpu.
exec kubectl-mgpu __complete "$@"
)sh";

// The first sentence, on one line.
std::string proposal(const std::string& text, const std::string& description) {
  return fmt::format("{}\t{}\n", text, description);
}

const FlagName* flag_named(const std::vector<FlagName>& flags, const std::string& word) {
  const auto found = std::ranges::find_if(flags, [&](const FlagName& flag) {
    return word == flag.name || (!flag.short_name.empty() && word == flag.short_name);
  });
  return found == flags.end() ? nullptr : &*found;
}

// The command on the line: the first word that is no flag.
std::string command_in(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (!word.starts_with('-')) return word;
  }
  return {};
}

// Sets the flags and words of `wanted` from the words of the line, of which the first one that is
// no flag is the command.
void read_line(const std::vector<FlagName>& flags, const std::vector<std::string>& line,
               NamesWanted& wanted) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    const std::string& word = line[at];
    if (!word.starts_with('-')) {
      wanted.words.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const FlagName* const flag = flag_named(flags, word.substr(0, equals));
    if (flag == nullptr || !flag->takes_value) continue;
    if (equals != word.npos) {
      wanted.flags[flag->name] = word.substr(equals + 1);
    } else if (++at < line.size()) {
      wanted.flags[flag->name] = line[at];
    }
  }
  if (!wanted.words.empty()) wanted.words.erase(wanted.words.begin());
}

std::string proposals_of(const std::vector<std::string>& names, const std::string& before,
                         const std::string& typed) {
  std::string out;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (!name.starts_with(typed) || name != sanitize_for_terminal(name, kShownNameMax)) continue;
    if (++count > kProposalsMax) break;
    out += proposal(before + name, "");
  }
  return out;
}

// The value of `flag` that begins with `typed`; `before` is in front of it, such as "--output=".
std::string values_of(const FlagName& flag, const std::string& before, const std::string& typed,
                      NamesWanted wanted, const NameSource& names) {
  if (flag.name.ends_with("namespace")) {
    wanted.of = NamesWanted::Of::kNamespaces;
    return proposals_of(names(wanted), before, typed) + kNoFiles;
  }
  if (flag.name == "--node") {
    // The selector of these commands is that of pods.
    wanted.flags.erase("--selector");
    wanted.of = NamesWanted::Of::kNodes;
    return proposals_of(names(wanted), before, typed) + kNoFiles;
  }
  if (flag.choices.empty()) {
    const bool names_file = flag.name == "--filename" || flag.name == "--kubeconfig" ||
                            flag.name.ends_with("certificate-authority") ||
                            flag.name.ends_with("-ca") || flag.name.ends_with("-token-file");
    return names_file ? kFiles : kNoFiles;
  }
  std::string out;
  for (const std::string& choice : flag.choices) {
    if (choice.starts_with(typed)) out += proposal(before + choice, flag.help);
  }
  return out + kNoFiles;
}

// What a command takes as its next word; `name` is that of Options::add_words().
std::optional<NamesWanted::Of> names_for(const std::string& name, std::size_t words_before) {
  using Of = NamesWanted::Of;
  if (name == "POD..." || (name == "POD" && words_before == 0)) return Of::kPods;
  if (name == "NODE...") return Of::kNodes;
  if (name != "NODE INDEX" || words_before > 1) return std::nullopt;
  return words_before == 0 ? Of::kNodes : Of::kCards;
}

std::string words_for(const std::string& name, const std::string& typed, NamesWanted wanted,
                      const NameSource& names) {
  const auto of = names_for(name, wanted.words.size());
  if (!of) return {};
  wanted.of = *of;
  std::vector<std::string> found = names(wanted);
  std::erase_if(found, [&](const std::string& one) {
    return *of != NamesWanted::Of::kCards &&
           std::ranges::find(wanted.words, one) != wanted.words.end();
  });
  return proposals_of(found, "", typed);
}

class CompletionVerb {
 public:
  void add_flags(Options& options) {
    options.add_words("SHELL", shells_, 1, 1);
    options.check([this]() -> Result<void> {
      if (!completion_script(shells_.front()).empty()) return {};
      return error("SHELL must be bash, zsh, fish or kubectl, found " + in_quotes(shells_.front()));
    });
  }
  Result<int> run(Console& console) {
    console.print(completion_script(shells_.front()));
    return kSucceeded;
  }

 private:
  std::vector<std::string> shells_;
};

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return shell == "kubectl" ? kKubectl : "";
}

std::string completions(const Options& options, const std::vector<std::string>& words,
                        const NameSource& names) {
  const std::string typed = words.empty() ? "" : words.back();
  std::vector<std::string> before = words;
  if (!before.empty()) before.pop_back();
  const std::string command = command_in(before);
  std::string out;
  if (command.empty()) {
    for (const auto& [name, description] : options.commands()) {
      if (name.starts_with(typed)) out += proposal(name, description);
    }
    return out + kNoFiles;
  }
  const auto flags = options.flags_of(command);
  NamesWanted wanted;
  read_line(flags, before, wanted);
  const FlagName* const last = flag_named(flags, before.back());
  if (last != nullptr && last->takes_value) return values_of(*last, "", typed, wanted, names);
  const std::size_t equals = typed.find('=');
  if (typed.starts_with("--") && equals != typed.npos) {
    const FlagName* const flag = flag_named(flags, typed.substr(0, equals));
    if (flag == nullptr || !flag->takes_value) return kNoFiles;
    return values_of(*flag, typed.substr(0, equals + 1), typed.substr(equals + 1), wanted, names);
  }
  if (typed.starts_with('-')) {
    for (const FlagName& flag : flags) {
      if (flag.name.starts_with(typed)) out += proposal(flag.name, flag.help);
    }
    return out + kNoFiles;
  }
  if (command == "completion" && wanted.words.empty()) {
    out += proposals_of({"bash", "zsh", "fish", "kubectl"}, "", typed);
  }
  return out + words_for(options.words_of(command), typed, wanted, names) + kNoFiles;
}

Run add_completion(Options& options) {
  return add_command<CompletionVerb>(options);
}

}  // namespace mgpu::kubectl
