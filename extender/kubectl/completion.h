// What shells propose for the word that is being typed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/options.h"

namespace mgpu::kubectl {

// `kubectl-mgpu __complete WORD...` prints completions() of the words; the last one is being typed.
inline constexpr std::string_view kCompleteWord = "__complete";

// One line for each proposal, "<text>\t<description>", then ":4", or ":0" where the shell should
// propose files: the protocol of cobra, in which kubectl asks the program kubectl_complete-mgpu.
std::string completions(const Options& options, const std::vector<std::string>& words);

// The script for "bash", "zsh" or "fish", or the program kubectl_complete-mgpu for "kubectl".
std::string completion_script(const std::string& shell);

}  // namespace mgpu::kubectl
