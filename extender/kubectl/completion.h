// What shells propose for the word that is being typed. Pure, but for read_names().
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/options.h"

namespace mgpu::kubectl {

// `kubectl-mgpu __complete WORD...` prints completions() of the words; the last one is being typed.
inline constexpr std::string_view kCompleteWord = "__complete";

// The names of objects that are wanted at the end of a line.
struct NamesWanted {
  enum class Of { kNodes, kCards, kPods, kNamespaces };
  Of of = Of::kNodes;
  std::vector<std::string> words{};            // before it, without the command and flags
  std::map<std::string, std::string> flags{};  // the values on the line: "--context" has "prod"
};
// Returns no names if they cannot be read.
using NameSource = std::function<std::vector<std::string>(const NamesWanted& wanted)>;

// Nodes with cards, the indices of the cards of the node in `wanted.words`, pods that request
// cards, or namespaces, from the API server. Follows --kubeconfig, --context, --namespace,
// --selector and --resource-domain of the line. None if there is no answer within kProposalTimeout,
// or a flag is not valid: an error would be written into the line that somebody types.
std::vector<std::string> read_names(const NamesWanted& wanted);

// One line for each proposal, "<text>\t<description>", then ":4", or ":0" if the shell should
// propose files: the protocol of cobra, in which kubectl runs the program kubectl_complete-mgpu.
// The words POD and NODE, the INDEX of a card and the values of --namespace are those of `names`,
// which is called once at most.
std::string completions(const Options& options, const std::vector<std::string>& words,
                        const NameSource& names);

// The script for "bash", "zsh" or "fish", or the program kubectl_complete-mgpu for "kubectl".
std::string completion_script(const std::string& shell);

}  // namespace mgpu::kubectl
