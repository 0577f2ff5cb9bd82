// The agent with --isolation=mps: containers across a restart, and what it publishes for MPS.
#include <gmock/gmock.h>

#include "plugin/cards/mps_process.h"
#include "test/plugin/agent/agent_world.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

using test::device_ids;
using test::eventually;

class MpsAgentTest : public test::AgentTest {
 public:
  ~MpsAgentTest() override {
    end();
    kill_daemons();
  }
  void kill_daemons() const {
    for (const char* card : {"GPU-0", "GPU-1"}) {
      const auto daemon = known_mps_daemon(mps_folders(path("/run"), CardUuid(card)));
      if (daemon) kill_mps_daemon(*daemon);
    }
  }
  AgentSettings settings() const {
    AgentSettings settings = AgentTest::settings();
    settings.isolation = IsolationMode::kMps;
    settings.mps_control = beside_the_test("fake_mps_control");
    return settings;
  }
};

// The runtime may be about to create the container, and a spec without its pipe directory would
// leave it without a device.
TEST_F(MpsAgentTest, KeepsRunningContainersInTheCdiSpecWhileNoDaemonRuns) {
  start_ready(settings());
  api_.create("a", {{"main", 30, 1'000, "1"}});
  const std::string before = allocate("a", device_ids(30));
  ASSERT_TRUE(eventually([this] { return pre_start(device_ids(30)) == "started"; }));
  end();
  kill_daemons();
  AgentSettings later = settings();
  later.mps_service = true;
  start_ready(later);
  api_.create("b", {{"main", 100, 1'000, "0"}});
  allocate("b", device_ids(100, 30));
  ASSERT_EQ(pre_start(device_ids(100, 30)), "started");
  EXPECT_EQ(injected(before, "CUDA_MPS_PIPE_DIRECTORY"), "/run/mgpu/mps");
}

TEST_F(MpsAgentTest, NoContainerWithAPartOfACardStartsWhileNoDaemonRuns) {
  AgentSettings without_daemons = settings();
  without_daemons.mps_service = true;
  start_ready(without_daemons);
  api_.create("a", {{"main", 30, 1'000, "1"}});
  allocate("a", device_ids(30));
  EXPECT_THAT(pre_start(device_ids(30)), testing::HasSubstr("MPS of card \"GPU-1\" does not run"));
}

}  // namespace
}  // namespace mgpu::plugin
