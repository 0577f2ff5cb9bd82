// The agent with --mps-exclusive, from the start of a container to the release of the driver.
#include <gmock/gmock.h>

#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/agent/agent_world.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

using test::device_ids;
using test::eventually;
using testing::HasSubstr;

class ExclusiveAgentTest : public test::AgentTest {
 public:
  ExclusiveAgentTest() { driver_.set_scenario("card GPU-0\ncard GPU-1\n"); }
  ~ExclusiveAgentTest() override {
    end();
    for (const char* card : {"GPU-0", "GPU-1"}) {
      const auto daemon = known_mps_daemon(mps_folders(path("/run"), CardUuid(card)));
      if (daemon) kill_mps_daemon(*daemon);
    }
  }
  AgentOptions options() const {
    AgentOptions options = AgentTest::options();
    options.isolation.mode = IsolationMode::kMps;
    options.isolation.mps.control = beside_the_test("fake_mps_control");
    options.isolation.mps_exclusive = true;
    options.isolation.nvml.libraries = {beside_the_test("fake_nvml.so")};
    options.isolation.nvml.timeout = std::chrono::hours(1);
    return options;
  }
  bool becomes(const std::string& card, const std::string& mode) const {
    return eventually([&] { return driver_.mode(card) == mode; });
  }

  FakeDriver driver_;
};

TEST_F(ExclusiveAgentTest, TheCardOfAShareIsExclusiveUntilTheDriverIsReleased) {
  start_ready(options());
  api_.create("a", {{"main", 30, 1'000, "1"}});
  const std::string allocation = allocate("a", device_ids(30));
  // The daemon of the card starts meanwhile.
  ASSERT_TRUE(eventually([this] { return pre_start(device_ids(30)) == "started"; }));
  EXPECT_EQ(driver_.mode("GPU-1"), "3");
  EXPECT_EQ(injected(allocation, "CUDA_MPS_PIPE_DIRECTORY"), "/run/mgpu/mps");
  EXPECT_THAT(get("/metrics").body, HasSubstr("mgpu_mps_exclusive{uuid=\"GPU-1\"} 1"));
  EXPECT_THAT(get("/metrics").body, HasSubstr("mgpu_mps_exclusive{uuid=\"GPU-0\"} 0"));
  api_.call(kube::Method::kPatch, "/api/v1/nodes/n1",
            Json{{"metadata", {{"labels", {{contract().release, "true"}}}}}}.dump());
  EXPECT_TRUE(becomes("GPU-1", "0"));
}

TEST_F(ExclusiveAgentTest, NoProgramRunsFromThePipeDirectory) {
  start_ready(options());
  api_.create("a", {{"main", 30, 1'000, "1"}});
  allocate("a", device_ids(30));
  ASSERT_TRUE(eventually([this] { return pre_start(device_ids(30)) == "started"; }));
  std::ifstream file(path("/cdi/vke.volcengine.com-mgpu.json"));
  const Json mounts = Json::parse(file)["devices"][0]["containerEdits"]["mounts"];
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0]["containerPath"], "/run/mgpu/mps");
  EXPECT_EQ(mounts[0]["options"], Json({"ro", "nosuid", "nodev", "noexec", "rbind"}));
}

TEST_F(ExclusiveAgentTest, TheNodeSaysThatPartsOfSeveralCardsDoNotStart) {
  start_ready(options());
  EXPECT_TRUE(eventually([this] { return published().profile.parts_of_one_card; }));
}

TEST_F(ExclusiveAgentTest, AWholeCardIsUsedWithoutMpsAndHasItsEarlierMode) {
  driver_.set_mode("GPU-0", 1);
  start_ready(options());
  api_.create("a", {{"main", 30, 1'000, "0"}});
  allocate("a", device_ids(30));
  ASSERT_TRUE(eventually([this] { return pre_start(device_ids(30)) == "started"; }));
  EXPECT_EQ(driver_.mode("GPU-0"), "3");
  api_.remove("a");
  api_.create("b", {{"main", 100, 1'000, "0"}});
  allocate("b", device_ids(100, 30));
  EXPECT_EQ(pre_start(device_ids(100, 30)), "started");
  EXPECT_EQ(driver_.mode("GPU-0"), "1");
}

}  // namespace
}  // namespace mgpu::plugin
