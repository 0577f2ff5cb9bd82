// An in-memory API server with a node of one card and the pods of a namespace, and what the verbs
// work on, for the parts of the extender that write to pods.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/log.h"
#include "extender/verbs/verbs.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"
#include "test/support/node_server.h"

namespace mgpu::test {

inline const std::string kPercentOf = "vke.volcengine.com/mgpu-core";
inline const std::string kMemoryOf = "vke.volcengine.com/mgpu-memory";
inline const std::string kTeamPods = "/api/v1/namespaces/team/pods";

struct TeamWorld {
  using Json = NodeServer::Json;

  TeamWorld() {
    EXPECT_TRUE(set_log_level("off"));
    options.contract = *Contract::for_domain(kDefaultResourceDomain);
    options.policy = *extender::find_policy("binpack");
    server.create_node();
    ledger.apply_node(facts_of("n1: 0[100/8000]"));
  }
  // Creates a pod of the namespace "team", with `more` merged into it.
  void create(const std::string& name, const Amounts& limits, const Json& more = Json::object()) {
    Json pod = Json::parse(pod_json(name, limits));
    pod["metadata"]["namespace"] = "team";
    pod.merge_patch(more);
    post(kTeamPods, pod.dump());
  }
  void post(const std::string& target, const std::string& body) {
    const auto response = server.api().call({.method = kube::Method::kPost,
                                             .target = target,
                                             .body = body,
                                             .content_type = "application/json"});
    EXPECT_TRUE(response.ok()) << response.body;
    server.run();
  }
  // Runs what polls each `interval`.
  void wait(Duration time, Duration interval) {
    for (Duration passed{}; passed < time; passed += interval) {
      server.executor().advance(interval);
      server.run();
      computing.run_ready();
      server.run();
    }
  }

  NodeServer server;
  ManualExecutor computing{2};
  extender::Ledger ledger;
  extender::VerbOptions options;
  extender::DisruptionBudgets budgets;
  extender::CurrentPrices prices;
  const extender::VerbContext context{options, ledger, budgets, prices};
  bool decides = true;
};

}  // namespace mgpu::test
