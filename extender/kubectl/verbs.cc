#include <map>
#include <string>
#include <string_view>

#include "common/base/version.h"
#include "extender/kubectl/completion.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

class VersionVerb {
 public:
  void add_flags(Options& options) { add_output_flag(options, output_, {"table", "json", "yaml"}); }
  Result<int> run(Console& console) const {
    const Json json = {{"version", MGPU_VERSION}, {"commit", kBuildCommit}};
    console.print(output_ == "table"  ? version_text() + "\n"
                  : output_ == "json" ? json_text(json)
                                      : yaml_text(json));
    return kFine;
  }

 private:
  std::string output_;
};

Run add_version(Options& options) {
  return add_command<VersionVerb>(options);
}

// The flags that say how the programs are reached, and not what is shown.
const std::vector<std::string> kConnectionFlags = {
    "kubeconfig",         "context",    "request-timeout",
    "mgpu-namespace",     "url",        "url-certificate-authority",
    "metrics-port",       "lease-name", "plugin-url",
    "plugin-metrics-port"};

}  // namespace

const std::vector<Verb>& all_verbs() {
  static const std::vector<Verb> verbs = {
      {"nodes",
       "shows the nodes with cards, and how much of their cards is taken",
       {"nodes                   # all nodes with cards", "nodes -l pool=a100 -o wide",
        "nodes gpu-1 -o json"},
       add_nodes},
      {"cards",
       "shows each card with its health, and how much of it is taken",
       {"cards                   # the cards of all nodes", "cards gpu-1 gpu-2 -o wide"},
       add_cards},
      {"pods",
       "shows the pods that request cards, and the cards that they have",
       {"pods                    # in the namespace of the context", "pods -A -o wide",
        "pods -n research -l app=notebook"},
       add_pods},
      {"top",
       "shows how much of their cards the containers use, and how much was granted",
       {"top -A", "top -n research notebook"},
       add_top},
      {"explain",
       "explains why a pod is pending, and what would help; or why it is where it is",
       {"explain notebook -n research", "explain notebook -o wide   # with each node and card"},
       add_explain},
      {"simulate",
       "shows where the pods of a manifest would be placed, and how many fit; it changes nothing",
       {"simulate -f deployment.yaml", "simulate -f pod.yaml --replicas 20 --policy binpack"},
       add_simulate},
      {"drift",
       "lists pods, processes and cards whose use differs from what mgpu allocated",
       {"drift -A", "drift --node gpu-1 -o wide   # with what to do"},
       add_drift},
      {"waste",
       "shows the GPU-hours that were granted, used and wasted, and requests that would suffice",
       {"waste -A --by namespace --prometheus-url http://127.0.0.1:9090",
        "waste -n research --since 168h -o csv"},
       add_waste},
      {"cordon-card",
       "keeps new pods from a card; those that hold a share of it go on",
       {"cordon-card gpu-1 3"},
       add_cordon_card},
      {"uncordon-card",
       "lets pods be placed on a card again",
       {"uncordon-card gpu-1 3"},
       add_uncordon_card},
      {"web",
       "shows the web page of the cluster by kubectl port-forward, until it is interrupted",
       {"web --open"},
       add_web},
      {"doctor",
       "checks the installation of mgpu, and prints a remedy for each finding",
       {"doctor", "doctor -l pool=a100 -o json"},
       add_doctor},
      {"convert",
       "rewrites manifests with requests of HAMi, aliyun or tencent for mgpu, and prints them",
       {"convert -f deployment.yaml", "convert -f deployment.yaml | kubectl apply -f -"},
       add_convert},
      {"completion",
       "prints the completion script for bash, zsh or fish, or the program kubectl_complete-mgpu "
       "for kubectl",
       {"completion bash"},
       add_completion},
      {"version", "prints the version of this program", {"version -o json"}, add_version},
  };
  return verbs;
}

int run_kubectl_mgpu(int argc, const char* const* argv, Console& console) {
  std::map<std::string, Run> runs;  // outlives the options, whose values are in it
  Options options("kubectl mgpu", "Shows and checks how mgpu shares the GPUs of a cluster.", "");
  for (const Verb& verb : all_verbs()) {
    std::vector<std::string> examples;
    for (const std::string& example : verb.examples) examples.push_back("kubectl mgpu " + example);
    Options& command = options.add_command(verb.name, verb.description, examples);
    runs[verb.name] = verb.add(command);
    command.show_as_connection(kConnectionFlags);
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
