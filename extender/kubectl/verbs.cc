#include <poll.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "extender/kubectl/completion.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

// The command if none is on the line.
constexpr const char* kDefaultVerb = "overview";

// The flags that say how the programs are reached, and not what is shown.
const std::vector<std::string> kConnectionFlags = {
    "kubeconfig",      "context",        "as",         "as-group",
    "request-timeout", "mgpu-namespace", "url",        "url-certificate-authority",
    "metrics-port",    "lease-name",     "plugin-url", "plugin-metrics-port"};

}  // namespace

const std::vector<Verb>& all_verbs() {
  static const std::vector<Verb> verbs = {
      {kDefaultVerb,
       "shows the sums of all cards, and what needs attention; it is the command without one",
       {"overview", "overview -w"},
       add_overview,
       true},
      {"nodes",
       "shows the nodes with cards, and how much of their cards is taken",
       {"nodes                   # all nodes with cards", "nodes -l pool=a100 -o wide",
        "nodes gpu-1 -o json"},
       add_nodes,
       true},
      {"cards",
       "shows each card with its health, and how much of it is taken",
       {"cards                   # the cards of all nodes", "cards gpu-1 gpu-2 -o wide"},
       add_cards,
       true},
      {"pods",
       "shows the pods that request cards, and the cards that they have",
       {"pods                    # in the namespace of the context", "pods -A -o wide",
        "pods -n research -l app=notebook"},
       add_pods,
       true},
      {"top",
       "shows how much of their cards the containers use, and how much was granted",
       {"top -A", "top -n research notebook"},
       add_top,
       true},
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
      {"version",
       "shows the versions of this program and of the pods of mgpu, and whether they work together",
       {"version", "version -o json"},
       add_version},
  };
  return verbs;
}

namespace {

bool is_flag(std::string_view word) {
  return word.starts_with('-');
}

// Returns the flags of all commands that have no value, as they are written.
std::set<std::string, std::less<>> flags_without_value(const Options& options) {
  std::set<std::string, std::less<>> flags;
  for (const Verb& verb : all_verbs()) {
    for (const FlagName& flag : options.flags_of(verb.name))
      if (!flag.takes_value) flags.insert({flag.name, flag.short_name});
  }
  return flags;
}

// The words of the line with the command before its flags, as kubectl allows "-n research pods".
std::vector<const char*> with_command(int argc, const char* const* argv, const Options& options) {
  const auto without_value = flags_without_value(options);
  // Whether the next word is not the flag's value.
  const auto is_whole = [&](std::string_view flag) {
    return flag.find('=') != flag.npos || without_value.contains(flag);
  };
  std::vector<const char*> words(argv, argv + argc);
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "-h" || first == "--help" || first == "--version") return words;
  std::ptrdiff_t at = 1;
  while (at < argc && is_flag(argv[at])) at += is_whole(argv[at]) ? 1 : 2;
  if (at >= argc) {
    words.insert(words.begin() + 1, kDefaultVerb);
  } else {
    std::rotate(words.begin() + 1, words.begin() + at, words.begin() + at + 1);
  }
  return words;
}

// Runs it again and again, until it fails or the process ends. On a terminal, its output is shown
// in place of the one before.
Result<int> watch(const Run& run, Console& console) {
  while (true) {
    std::string out;
    Console buffer = console;
    buffer.print = [&](std::string_view text) { out += text; };
    const auto exit_code = run(buffer);
    console.print((console.width > 0 ? "\x1b[H\x1b[2J" : "") + out);
    if (!exit_code) return exit_code;
    ::poll(nullptr, 0, static_cast<int>(kWatchInterval.count()));
  }
}

}  // namespace

int run_kubectl_mgpu(int argc, const char* const* argv, Console& console) {
  std::map<std::string, Run> runs;  // outlives the options, whose values are in it
  bool watches = false;
  std::string color = "auto";
  Options options("kubectl mgpu", "Shows and checks how mgpu shares the GPUs of a cluster.", "");
  for (const Verb& verb : all_verbs()) {
    std::vector<std::string> examples;
    for (const std::string& example : verb.examples) examples.push_back("kubectl mgpu " + example);
    Options& command = options.add_command(verb.name, verb.description, examples);
    runs[verb.name] = verb.add(command);
    command.show_as_connection(kConnectionFlags);
    command.add_choice("color", "Whether texts have colors; auto: on a terminal.", color,
                       {"auto", "always", "never"});
    if (verb.has_watch) {
      command.add_flag("w,watch", "Show it again every two seconds, until Ctrl+C.", watches);
    }
  }
  // Shells call it; see completion.cc.
  if (argc > 1 && std::string_view(argv[1]) == kCompleteWord) {
    console.print(completions(options, {argv + 2, argv + argc}, read_names));
    return kSucceeded;
  }
  const auto words = with_command(argc, argv, options);
  const ParsedOptions parsed = options.parse(static_cast<int>(words.size()), words.data());
  if (parsed.exit_code == 0) {
    console.print(parsed.print);
  } else {
    console.print_error(parsed.print);
  }
  if (!parsed.run) return parsed.exit_code;
  if (color != "auto") console.colors = color == "always";
  const Run& run = runs.at(options.command());
  const auto exit_code = watches ? watch(run, console) : run(console);
  return exit_code ? *exit_code : fail(console, exit_code.error().message);
}

}  // namespace mgpu::kubectl
