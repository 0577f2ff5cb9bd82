// The agent where the library limits memory and is tested on the cards first.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/agent/agent_world.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::test {
namespace {

using testing::HasSubstr;

// A program that is no test of a card: it prints what is in `result`, once that is there.
class LibraryAgentTest : public AgentTest {
 public:
  LibraryAgentTest() {
    std::filesystem::create_directories(path("/libraries"));
    for (const char* const name : {"/libmgpu-cuda.so", "/libmgpu-nvml.so"}) {
      std::ofstream(path("/libraries") + name) << name;
    }
    const std::string program = path("/libraries/mgpu-check-share");
    std::ofstream(program) << "#!/bin/sh\necho >>" << path("/started") << "\nwhile [ ! -e "
                           << path("/result") << " ]; do sleep 0.01; done\ncat " << path("/result")
                           << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    std::filesystem::create_directories(path("/proc/1/ns"));
    std::filesystem::copy_symlink("/proc/self/ns/mnt", path("/proc/1/ns/mnt"));
    replace_driver();
    touch_cards();
    options_.isolation.mode = IsolationMode::kIntercept;
    options_.isolation.self_test = true;
    options_.isolation.library_folder = path("/libraries");
  }

  // The cards are read at once, and are the same.
  void touch_cards() const {
    std::ofstream(path("/cards.part"))
        << "cards:\n  - {index: 0, uuid: GPU-6d677075-0000-4000-8000-000000000001, model: V100, "
           "memoryMiB: 32510, health: Healthy, devices: [/dev/nvidia0]}\n"
           "shared: {mounts: [{hostPath: "
        << path("/libcuda.so.1") << ", containerPath: /usr/lib64/libcuda.so.1}]}\n";
    std::filesystem::rename(path("/cards.part"), path("/cards.yaml"));
  }

  void replace_driver() { std::ofstream(path("/libcuda.so.1"), std::ios::app) << "x"; }
  void pass() { answer("passed memory\npassed processes\npassed ended\ndone\n"); }
  void fail() { answer("failed memory: too much\n"); }
  void answer(const std::string& text) {
    std::ofstream(path("/part")) << text;
    std::filesystem::rename(path("/part"), path("/result"));
  }
  void hang() {
    std::filesystem::remove(path("/result"));
    std::filesystem::remove(path("/started"));
  }
  bool started() const { return std::filesystem::exists(path("/started")); }
  // As often as the node is published and the cards are read meanwhile.
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }
  Json annotation() {
    return api_.node().at(Json::json_pointer("/metadata/annotations")).at(contract().node_cards);
  }
  std::string event() { return AgentTest::event("MGPUCardUnhealthy", "default"); }

  // Where the pages of an allocation are mounted.
  void unmount(const std::string& id) const {
    EXPECT_EQ(::umount2((path("/run/share/") + id).c_str(), MNT_DETACH), 0);
  }
  // Returns the allocation.
  std::string run_part() {
    pass();
    start_ready(options_);
    api_.create("a", {{"main", 30, 2'000, "0"}});
    const std::string id = allocate("a", device_ids(30));
    EXPECT_TRUE(eventually([&] { return pre_start(device_ids(30)) == "started"; }));
    return id;
  }
  void kill_daemon() const {
    const auto daemon = plugin::known_mps_daemon(plugin::mps_folders(path("/run"), kCard));
    if (daemon) plugin::kill_mps_daemon(*daemon);
  }
  void set_profile() {
    options_.profiles = {{.name = "all", .node_selector = {{"pool", "a"}}}};
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1",
              Json{{"metadata", {{"labels", {{"pool", "a"}}}}}}.dump());
  }
  void start_with(ComputeMode compute) {
    end();
    options_.isolation.compute = compute;
    start_ready(options_);
  }

  const CardUuid kCard{"GPU-6d677075-0000-4000-8000-000000000001"};
  AgentOptions options_ = options();
};

TEST_F(LibraryAgentTest, NothingIsPublishedBeforeTheResult) {
  start(options_);
  ASSERT_TRUE(eventually([this] { return started(); }));
  wait();
  EXPECT_TRUE(announced().empty());
  EXPECT_THAT(get("/readyz").body, HasSubstr("the self test of the library"));
  fail();
  ASSERT_TRUE(eventually([this] { return !announced().empty(); }));
  EXPECT_EQ(announced()[0].health, "self test of the library: memory: too much");
  EXPECT_TRUE(eventually([this] { return contains("memory: too much", event()); }));
}

TEST_F(LibraryAgentTest, ATestAtTheStartLeavesHealthyCardsAsTheyWerePublished) {
  pass();
  start_ready(options_);
  ASSERT_TRUE(eventually([this] { return ready_reason() == "CardsReady"; }));
  const Json before = annotation();
  ASSERT_TRUE(announced()[0].healthy());
  end();
  hang();
  replace_driver();
  // A change of a card would have another time.
  std::this_thread::sleep_for(std::chrono::milliseconds(1'100));
  start(options_);
  ASSERT_TRUE(eventually([this] { return started(); }));
  wait();
  EXPECT_EQ(annotation(), before);
  EXPECT_EQ(ready_reason(), "CardsReady");
  pass();
  ASSERT_TRUE(eventually([this] { return agent_->ready(); }));
  EXPECT_EQ(annotation(), before);
  EXPECT_EQ(event(), "");
}

TEST_F(LibraryAgentTest, ACardStaysOfferedWhileItIsTestedAgain) {
  pass();
  start_ready(options_);
  ASSERT_TRUE(eventually([this] { return ready_reason() == "CardsReady"; }));
  const Json before = annotation();
  hang();
  replace_driver();
  touch_cards();
  ASSERT_TRUE(eventually([this] { return started(); }));
  wait();
  EXPECT_EQ(annotation(), before);
  EXPECT_EQ(event(), "");
  fail();
  wait();
  touch_cards();
  EXPECT_TRUE(eventually([this] { return contains("memory: too much", event()); }));
  EXPECT_TRUE(eventually([this] { return !announced()[0].healthy(); }));
}

TEST_F(LibraryAgentTest, MpsLimitsComputeAndTheLibraryMemory) {
  options_.isolation.compute = ComputeMode::kMps;
  options_.isolation.mps.control = beside_the_test("fake_mps_control");
  pass();
  start_ready(options_);
  ASSERT_TRUE(eventually([this] { return ready_reason() == "CardsReady"; }));
  api_.create("a", {{"main", 30, 2'000, "0"}});
  const std::string id = allocate("a", device_ids(30));
  EXPECT_TRUE(eventually([&] { return pre_start(device_ids(30)) == "started"; }));
  EXPECT_EQ(injected(id, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
  EXPECT_EQ(injected(id, "MGPU_ENFORCED"), "memory,compute");
  std::ifstream spec(path("/cdi/vke.volcengine.com-mgpu.json"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(spec), {}), HasSubstr("libmgpu-cuda.so"));
  EXPECT_THAT(annotation().get<std::string>(), HasSubstr(R"("compute":"mps")"));
  end();
  unmount(id);
  kill_daemon();
}

TEST_F(LibraryAgentTest, MpsBesidesTheLibraryKeepsOtherProgramsOffTheCard) {
  const FakeDriver driver;
  driver.set_scenario("card " + kCard.str() + "\n");
  options_.isolation.compute = ComputeMode::kMps;
  options_.isolation.mps.control = beside_the_test("fake_mps_control");
  options_.isolation.mps_exclusive = true;
  options_.isolation.nvml.libraries = {beside_the_test("fake_nvml.so")};
  options_.isolation.nvml.timeout = std::chrono::hours(1);
  const std::string id = run_part();
  EXPECT_EQ(driver.mode(kCard.str()), "3");
  EXPECT_EQ(injected(id, "MGPU_ENFORCED"), "memory,compute");
  // Also where another process goes on, until memory is limited without MPS.
  start_with(ComputeMode::kMps);
  EXPECT_EQ(driver.mode(kCard.str()), "3");
  start_with(ComputeMode::kNone);
  EXPECT_TRUE(eventually([&] { return driver.mode(kCard.str()) == "0"; }));
  end();
  unmount(id);
  kill_daemon();
}

// --- another --compute ---------------------------------------------------------------------------

TEST_F(LibraryAgentTest, AnotherComputeIsForContainersThatStartLater) {
  options_.isolation.compute = ComputeMode::kFixed;
  const std::string id = run_part();
  const std::string turn = path("/run/share/" + id + "/" + kCard.str() + "/turn");
  EXPECT_TRUE(std::filesystem::exists(turn));
  start_with(ComputeMode::kNone);
  EXPECT_TRUE(std::filesystem::exists(turn)) << "the container runs with it";
  EXPECT_EQ(pre_start(device_ids(30)), "started");
  EXPECT_EQ(injected(id, "MGPU_ENFORCED"), "memory");
  EXPECT_FALSE(std::filesystem::exists(turn));
  end();
  unmount(id);
}

// With profiles, the containers of a card are limited in one way.
TEST_F(LibraryAgentTest, AnotherComputeBeginsWithProfilesWhenNoContainerHoldsACard) {
  set_profile();
  options_.isolation.compute = ComputeMode::kBurst;
  pass();
  start_ready(options_);
  start_with(ComputeMode::kFixed);
  EXPECT_TRUE(eventually([this] { return published().profile.compute == "fixed"; }));
  const std::string id = run_part();
  start_with(ComputeMode::kNone);
  EXPECT_TRUE(eventually([this] {
    return published().profile.problem ==
           "isolation intercept begins when no container holds a card; until then it is intercept "
           "with fixed";
  }));
  EXPECT_EQ(published().profile.compute, "fixed");
  EXPECT_EQ(*read_file(path("/state/isolation"), 100, "it"), "intercept")
      << "earlier versions read it";
  EXPECT_EQ(*read_file(path("/state/compute"), 100, "it"), "fixed");
  EXPECT_EQ(pre_start(device_ids(30)), "started");
  EXPECT_EQ(injected(id, "MGPU_ENFORCED"), "memory,compute");
  end();
  unmount(id);
}

// The servers of MPS go on until then.
TEST_F(LibraryAgentTest, WhatMpsNeedsIsReservedUntilTheLastContainerHasEnded) {
  set_profile();
  options_.isolation.compute = ComputeMode::kMps;
  options_.isolation.mps.control = beside_the_test("fake_mps_control");
  const std::string id = run_part();
  const MiB left = announced()[0].memory;
  EXPECT_LT(left, MiB(kCardMemory));
  start_with(ComputeMode::kNone);
  EXPECT_TRUE(
      eventually([this] { return contains("until then it is", published().profile.problem); }));
  EXPECT_EQ(announced()[0].memory, left);
  end();
  unmount(id);
  kill_daemon();
}

}  // namespace
}  // namespace mgpu::test
