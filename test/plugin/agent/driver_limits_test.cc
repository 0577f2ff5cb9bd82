// The agent whose shares the driver enforces, from Allocate to the end of the pod.
#include <gmock/gmock.h>

#include "test/plugin/agent/agent_world.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/containers/limit_client.h"

namespace mgpu::plugin {
namespace {

using test::contains;
using test::device_ids;
using test::eventually;
using test::LimitClient;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DriverLimitsTest : public test::AgentTest {
 public:
  DriverLimitsTest() {
    driver_.set_scenario("card GPU-0\ncard GPU-1\n");
    driver_.add_file("/sys/fs/cgroup/cgroup.controllers");
  }
  AgentOptions options(IsolationMode mode, const std::string& library = "fake_nvml_r615.so") {
    AgentOptions options = AgentTest::options();
    options.isolation.mode = mode;
    options.isolation.mps.control = path("/no-such-program");
    options.isolation.nvml.libraries = {beside_the_test(library)};
    options.isolation.nvml.node_root = driver_.root();
    options.isolation.nvml.timeout = std::chrono::hours(1);
    return options;
  }
  // The hooks of the allocation in the CDI spec.
  Json hooks(const std::string& allocation) const {
    std::ifstream file(path("/cdi/vke.volcengine.com-mgpu.json"));
    const Json spec = Json::parse(file);
    for (const Json& device : spec["devices"]) {
      if (device["name"] == allocation) return device["containerEdits"].value("hooks", Json());
    }
    return {};
  }
  // The limits of cgroups of pods.
  std::vector<std::string> limits() const {
    auto all = driver_.limits();
    std::erase_if(all, [](const auto& line) { return !contains("/kubepods/", line); });
    return all;
  }
  std::string ask(const std::string& allocation, int pid) const {
    const LimitClient client(path("/run/limits.sock"));
    client.send(allocation + " " + std::to_string(pid) + "\n");
    return client.reply();
  }
  // Process 11 of the pod, and its cgroup.
  std::string run_in_cgroup(const std::string& pod) {
    run_process(pod);
    const std::string cgroup = "/sys/fs/cgroup/kubepods/pod" +
                               std::string(api_.pod(pod)["metadata"]["uid"]) + "/" +
                               std::string(64, 'a');
    driver_.add_file(cgroup + "/cgroup.procs");
    return driver_.root() + cgroup;
  }

  FakeDriver driver_;
};

TEST_F(DriverLimitsTest, AContainerStartsWithTheHookThatHasItsMemoryLimited) {
  start_ready(options(IsolationMode::kDriver));
  const std::string allocation = run("a", 1);
  EXPECT_EQ(hooks(allocation),
            Json::parse(R"([{"hookName": "createRuntime", "timeout": 15, "path": ")" +
                        path("/state/mgpu-set-limits") + R"(", "args": [")" +
                        path("/state/mgpu-set-limits") + "\", \"" + path("/run/limits.sock") +
                        "\", \"" + allocation + "\"]}]"));
  const std::string cgroup = run_in_cgroup("a");
  EXPECT_EQ(ask(allocation, 11), "ok\n");
  EXPECT_THAT(limits(), ElementsAre("GPU-1 " + cgroup + " 0 1048576000"));
  EXPECT_THAT(get("/metrics").body, HasSubstr("mgpu_plugin_isolation{isolation=\"driver\"} 1"));
}

TEST_F(DriverLimitsTest, AProcessOfAnotherPodIsNotLimited) {
  start_ready(options(IsolationMode::kDriver));
  const std::string allocation = run("a", 1);
  api_.create("b", {{}});
  run_in_cgroup("b");
  EXPECT_THAT(ask(allocation, 11), HasSubstr("is not of a container of pod uid"));
  EXPECT_THAT(limits(), IsEmpty());
}

// The limits are in the driver, and a container that restarts gets them again.
TEST_F(DriverLimitsTest, ARestartedPluginLimitsTheContainersThatItStartedBefore) {
  start_ready(options(IsolationMode::kDriver));
  const std::string allocation = run("a", 1);
  end();
  EXPECT_FALSE(LimitClient(path("/run/limits.sock")).connected());
  start_ready(options(IsolationMode::kDriver));
  EXPECT_FALSE(hooks(allocation).empty());
  run_in_cgroup("a");
  EXPECT_EQ(ask(allocation, 11), "ok\n");
}

TEST_F(DriverLimitsTest, AnOldDriverOffersNoCardsAndTheNodeSaysWhy) {
  start(options(IsolationMode::kDriver, "fake_nvml.so"));
  ASSERT_TRUE(eventually([this] { return ready_reason() == "NoHealthyCards"; }));
  EXPECT_THAT(
      std::string(api_.condition("MGPUReady")["message"]),
      HasSubstr("the driver has no nvmlDeviceSetMemoryLimits_v1, which R615 and later have"));
  EXPECT_EQ(devices(), 0U);
}

TEST_F(DriverLimitsTest, AutoEnforcesNothingWhereTheNodeHasNothing) {
  start_ready(options(IsolationMode::kAuto, "fake_nvml.so"));
  EXPECT_TRUE(hooks(run("a", 1)).empty());
  EXPECT_THAT(get("/metrics").body, HasSubstr("mgpu_plugin_isolation{isolation=\"none\"} 1"));
}

TEST_F(DriverLimitsTest, AutoIsTheDriverWhereItCan) {
  start_ready(options(IsolationMode::kAuto));
  EXPECT_FALSE(hooks(run("a", 1)).empty());
}

}  // namespace
}  // namespace mgpu::plugin
