#include <map>
#include <string>
#include <string_view>

#include "extender/kubectl/completion.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

Run add_version(Options&) {
  return [](Console& console) {
    console.print(version_text() + "\n");
    return kFine;
  };
}

}  // namespace

const std::vector<Verb>& all_verbs() {
  static const std::vector<Verb> verbs = {
      {"nodes", "shows the nodes with cards, and how much of their cards is taken", add_nodes},
      {"cards", "shows each card with its health, and how much of it is taken", add_cards},
      {"pods", "shows the pods that request cards, and the cards that they have", add_pods},
      {"top", "shows how much of their cards the containers use, and how much was granted",
       add_top},
      {"explain",
       "explains why a pod waits, on each node and card, and what would help; or why it is where "
       "it is",
       add_explain},
      {"simulate",
       "shows where the pods of a manifest would be placed, and how many fit; it changes nothing",
       add_simulate},
      {"drift", "lists pods, processes and cards whose use differs from what mgpu allocated",
       add_drift},
      {"waste",
       "shows the GPU-hours that were granted, used and wasted, and requests that would suffice",
       add_waste},
      {"cordon-card", "keeps new pods from a card; those that hold a share of it go on",
       add_cordon_card},
      {"uncordon-card", "lets pods be placed on a card again", add_uncordon_card},
      {"web", "shows the web page of the cluster by kubectl port-forward, until it is interrupted",
       add_web},
      {"doctor", "checks the installation of mgpu, and prints a remedy for each finding",
       add_doctor},
      {"convert",
       "rewrites manifests with requests of HAMi, aliyun or tencent for mgpu, and prints them",
       add_convert},
      {"completion",
       "prints the completion script for bash, zsh or fish, or the program kubectl_complete-mgpu "
       "for kubectl",
       add_completion},
      {"version", "prints the version of this program", add_version},
  };
  return verbs;
}

int run_kubectl_mgpu(int argc, const char* const* argv, Console& console) {
  std::map<std::string, Run> runs;  // outlives the options, whose values are in it
  Options options("kubectl mgpu", "Shows and checks how mgpu shares the GPUs of a cluster.", "");
  for (const Verb& verb : all_verbs()) {
    runs[verb.name] = verb.add(options.add_command(verb.name, verb.description));
  }
  // Shells call it; see completion.cc.
  if (argc > 1 && std::string_view(argv[1]) == kCompleteWord) {
    console.print(completions(options, {argv + 2, argv + argc}, read_names));
    return kFine;
  }
  const ParsedOptions parsed = options.parse(argc, argv);
  if (parsed.exit_code == 0) {
    console.print(parsed.print);
  } else {
    console.print_error(parsed.print);
  }
  if (!parsed.run) return parsed.exit_code;
  const auto exit_code = runs.at(options.command())(console);
  return exit_code ? *exit_code : fail(console, exit_code.error().message);
}

}  // namespace mgpu::kubectl
