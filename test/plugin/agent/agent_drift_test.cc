// What the agent reports when annotations, records and processes do not agree.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "test/plugin/agent/agent_world.h"

namespace mgpu::plugin {
namespace {

using test::AgentTest;
using test::contains;
using test::contract;
using test::eventually;
using testing::HasSubstr;

class AgentDriftTest : public AgentTest {
 public:
  // A process of no pod, with this pid.
  void run_on_node(int pid) const {
    std::filesystem::create_directory(path("/proc/" + std::to_string(pid)));
    std::ofstream(path("/proc/" + std::to_string(pid) + "/cgroup"))
        << "0::/system.slice/x.service\n";
    std::ofstream(path("/proc/" + std::to_string(pid) + "/stat"))
        << pid << " (trainer) S 1 10 10 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 1 0 500 10000 200 0\n";
  }
  // Samples are taken every few seconds, and a drift is in two of them.
  static bool soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 6; ++i) {
      if (eventually(condition)) return true;
    }
    return false;
  }
  Json items() const {
    const Json drift = Json::parse(get("/drift").body, nullptr, false);
    return drift.value("items", Json::array());
  }
  bool measured(const std::string& kind, int value) const {
    const std::string line = "mgpu_drifts{kind=\"" + kind + "\"} " + std::to_string(value) + "\n";
    return contains(line, get("/metrics").body);
  }
  // The one item, once there is one of this kind.
  Json becomes(const std::string& kind) const {
    EXPECT_TRUE(soon([&] { return measured(kind, 1); })) << get("/drift").body;
    for (const Json& item : items()) {
      if (item["kind"] == kind) return item;
    }
    ADD_FAILURE() << "no " << kind << " in " << get("/drift").body;
    return {};
  }
  // Pod ml/a runs on card 1, with process 11.
  void run_pod() {
    run("a", 1);
    run_process("a");
    api_.set_running("a", "main", std::string(64, 'a'));
    write_cards({"Healthy", "Healthy"}, test::kCardMemory, "[{pid: 11, memoryMiB: 5}]");
  }
};

TEST_F(AgentDriftTest, ServesAnEmptyListAndEveryKindBeforeTheFirstSample) {
  start(options());
  EXPECT_EQ(get("/drift").body, "{\"node\":\"n1\",\"items\":[],\"leftOut\":0}\n");
  for (const DriftKind kind : kNodeDriftKinds)
    EXPECT_TRUE(measured(std::string(to_string(kind)), 0));
}

TEST_F(AgentDriftTest, ReportsAProcessOfNoPodOnItsNodeUntilItEnds) {
  start_ready();
  run_on_node(12);
  write_cards({"Healthy", "Healthy"}, test::kCardMemory, "[{pid: 12, memoryMiB: 5}]");
  const Json item = becomes("ProcessWithoutShare");
  EXPECT_EQ(item["card"], 1);
  EXPECT_EQ(item["uuid"], "GPU-1");
  EXPECT_FALSE(item.contains("pod"));
  EXPECT_THAT(std::string(item["message"]),
              HasSubstr("process 12 (\"trainer\") on card 1 (GPU-1)"));
  EXPECT_TRUE(eventually(
      [this] { return contains("process 12", event("MGPUProcessWithoutShare", "default")); }));
  write_cards({"Healthy", "Healthy"});
  EXPECT_TRUE(soon([this] { return measured("ProcessWithoutShare", 0); }));
  EXPECT_TRUE(items().empty());
}

TEST_F(AgentDriftTest, ReportsChangedAnnotationsOnTheirPodOnce) {
  start_ready();
  run_pod();
  api_.annotate("a", contract().index_key("main"), "0");
  const Json item = becomes("ChangedAnnotations");
  EXPECT_EQ(item["namespace"], "ml");
  EXPECT_EQ(item["pod"], "a");
  EXPECT_EQ(item["container"], "main");
  EXPECT_TRUE(eventually([this] { return event("MGPUChangedAnnotations") != ""; }));
  api_.annotate("a", contract().index_key("main"), "1");
  EXPECT_TRUE(soon([this] { return measured("ChangedAnnotations", 0); }));
  int events = 0;
  for (const Json& one : api_.events("ml")) {
    if (one["reason"] == "MGPUChangedAnnotations") events += one.value("count", 0);
  }
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace mgpu::plugin
