#include <string_view>
#include <utility>

#include "extender/kubectl/completion.h"
#include "extender/kubectl/object_names.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  verbs.push_back(nodes_verb());
  verbs.push_back(cards_verb());
  verbs.push_back(pods_verb());
  verbs.push_back(top_verb());
  verbs.push_back(explain_verb());
  verbs.push_back(simulate_verb());
  verbs.push_back(drift_verb());
  verbs.push_back(waste_verb());
  verbs.push_back(cordon_card_verb());
  verbs.push_back(uncordon_card_verb());
  verbs.push_back(web_verb());
  verbs.push_back(doctor_verb());
  verbs.push_back(convert_verb());
  verbs.push_back(completion_verb());
  verbs.push_back(version_verb());
  return verbs;
}

int run_kubectl_mgpu(int argc, const char* const* argv, Console& console) {
  const auto verbs = all_verbs();
  Options options("kubectl mgpu", "Shows and checks how mgpu shares the GPUs of a cluster.", "");
  for (const auto& verb : verbs) {
    verb->add_flags(options.add_command(verb->name(), verb->description()));
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
  for (const auto& verb : verbs) {
    if (verb->name() == options.command()) return verb->run(console);
  }
  return kUsage;
}

}  // namespace mgpu::kubectl
