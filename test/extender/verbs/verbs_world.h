// Ledgers described by text, and kube-scheduler's requests to the verbs.
#pragma once

#include <string>
#include <vector>

#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/verbs.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender::test {

// Equal nodes are chosen by name, so that a test knows which.
inline VerbOptions options_of(std::string_view policy = "binpack") {
  VerbOptions options;
  options.ties_by_name = true;
  options.contract = *Contract::for_domain(kDefaultResourceDomain);
  options.policy = *find_policy(policy);
  return options;
}

// What the verbs work on, without nodes and prices at first.
struct VerbsWorld {
  VerbOptions options = options_of();
  Ledger ledger;
  DisruptionBudgets budgets;
  CurrentPrices prices;
  WorkloadWindow window;
  const VerbContext context{options, ledger, budgets, prices, &window};
};

// `amounts` is "30/1024" (core/MiB), "200" (whole cards) or "" (no cards).
inline std::string container_json(const std::string& name, const std::string& amounts) {
  const std::string container = R"({"name":")" + name + R"(","image":"i")";
  if (amounts.empty()) return container + "}";
  const std::string domain(kDefaultResourceDomain);
  const std::size_t slash = amounts.find('/');
  std::string limits = "\"" + domain + R"(/mgpu-core":")" + amounts.substr(0, slash) + "\"";
  if (slash != std::string::npos) {
    limits += ",\"" + domain + R"(/mgpu-memory":")" + amounts.substr(slash + 1) + "\"";
  }
  return container + R"(,"resources":{"limits":{)" + limits + "}}}";
}

struct PodText {
  std::string name = "p";
  std::vector<std::string> requests = {"30/1024"};  // amounts of each container
  std::string annotations = {};                     // members of the JSON object
  int priority = 0;
  std::string container = "c";  // a number follows the name
  bool with_uid = true;         // the uid is "uid-" and the name of the pod
  std::string spec = {};        // more members of the spec, each with a comma after it
  std::string metadata = {};    // the same of the metadata
};

inline std::string pod_json(const PodText& pod) {
  std::string containers;
  for (std::size_t i = 0; i < pod.requests.size(); ++i) {
    containers +=
        (i == 0 ? "" : ",") + container_json(pod.container + std::to_string(i), pod.requests[i]);
  }
  const std::string uid = pod.with_uid ? R"(,"uid":"uid-)" + pod.name + "\"" : "";
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"d","name":")" + pod.name +
         "\"" + uid + "," + pod.metadata + R"("annotations":{)" + pod.annotations +
         R"(}},"spec":{)" + pod.spec + R"("priority":)" + std::to_string(pod.priority) +
         R"(,"containers":[)" + containers + "]}}";
}

inline std::string names_json(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "\"" : ",\"") + name + "\"";
  return "[" + list + "]";
}

inline ExtenderArgs args_of(const PodText& pod, const std::vector<std::string>& names) {
  return *ExtenderArgs::parse(R"({"Pod":)" + pod_json(pod) + R"(,"Nodes":null,"NodeNames":)" +
                              names_json(names) + "}");
}

inline void add_node(Ledger& ledger, std::string_view text) {
  ledger.apply_node(mgpu::test::facts_of(text));
}

}  // namespace mgpu::extender::test
