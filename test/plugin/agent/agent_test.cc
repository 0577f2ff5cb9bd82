#include "plugin/agent/agent.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "plugin/cards/driver/release_marker.h"
#include "test/plugin/agent/agent_world.h"
#include "test/plugin/support/scripted_parts.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;
using test::AgentTest;
using test::contains;
using test::device_ids;
using test::eventually;
using test::kCore;
using test::kMemory;
using testing::HasSubstr;
using testing::SizeIs;

class AgentReleaseTest : public AgentTest {
 public:
  void label_release(const std::string& value) {
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1",
              Json{{"metadata", {{"labels", {{test::contract().release, value}}}}}}.dump());
  }
};

// --- start-up ------------------------------------------------------------------------------------

TEST_F(AgentTest, PublishesItsCards) {
  start_ready();
  ASSERT_TRUE(eventually([this] { return ready_reason() == "CardsReady"; }));
  EXPECT_EQ(api_.condition("MGPUReady")["status"], "True");
  EXPECT_EQ(api_.condition("MGPUReady")["message"], "2 of 2 cards are healthy");
  EXPECT_TRUE(eventually([this] { return capacity(kMemory) == "65020"; }));
  ASSERT_THAT(announced(), SizeIs(2));
  EXPECT_EQ(announced()[1].uuid, CardUuid("GPU-1"));
}

TEST_F(AgentTest, OffersOneHundredDevicesForEachCard) {
  start_ready();
  EXPECT_EQ(devices(), 200U);
  EXPECT_TRUE(kubelet_->pre_start_required(kCore));
  EXPECT_EQ(devices(kMemory), 0U) << "a PATCH of the node publishes it";
}

// After an empty list, kubelet would treat all devices of the next list as new.
TEST_F(AgentTest, TheFirstListHasAllDevices) {
  start_ready();
  EXPECT_EQ(kubelet_->lists(kCore), 1);
}

TEST_F(AgentTest, AnswersOverHttp) {
  start_ready();
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/version").status, 200);
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.body, HasSubstr("mgpu_plugin_registered{resource=\"" + kCore + "\"} 1"));
  EXPECT_THAT(metrics.body, HasSubstr("mgpu_plugin_ready 1"));
  EXPECT_EQ(get("/no/such").status, 404);
}

TEST_F(AgentTest, ReportsThatItWaitsForTheCards) {
  fs::remove(path("/cards.yaml"));
  start(options());
  ASSERT_TRUE(eventually([this] { return ready_reason() == "NoDriver"; }));
  ASSERT_TRUE(eventually([this] { return contains("the cards: ", get("/readyz").body); }));
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_FALSE(agent_->ready());
  write_cards({"Healthy"});
  EXPECT_TRUE(eventually([this] { return agent_->ready() && devices() == 100U; }));
}

TEST_F(AgentTest, ReportsThatItWaitsForKubelet) {
  kubelet_.reset();
  start(options());
  ASSERT_TRUE(eventually([this] { return ready_reason() == "KubeletAbsent"; }));
  ASSERT_TRUE(eventually([this] { return contains("kubelet in ", get("/readyz").body); }));
  kubelet_ = std::make_unique<test::FakeKubelet>(path("/plugins"));
  EXPECT_TRUE(eventually([this] { return ready_reason() == "CardsReady"; }));
}

TEST_F(AgentTest, ReportsAMissingNodeObject) {
  AgentOptions elsewhere = options();
  elsewhere.node = NodeName("n2");
  start(elsewhere);
  ASSERT_TRUE(eventually([this] { return devices() > 0; }));
  EXPECT_TRUE(
      eventually([this] { return contains("the Node object, which", get("/readyz").body); }));
  EXPECT_EQ(get("/readyz").status, 503);
}

TEST_F(AgentTest, ReportsThatItWaitsForTheRuntime) {
  runtime_.reset();
  start(options());
  ASSERT_TRUE(eventually([this] { return contains("container runtime", get("/readyz").body); }));
  EXPECT_EQ(devices(), 0U) << "it is unknown whether containers would get their cards";
  runtime_.emplace(path("/runtime.sock"), "cri-o", "1.33.1", std::map<std::string, std::string>());
  EXPECT_TRUE(eventually([this] { return agent_->ready(); }));
}

constexpr const char* kWithoutCdi = R"({"enableCDI":false})";
constexpr const char* kHowToGetCdi =
    "containerd v2.2.9 has CDI disabled; set enable_cdi = true in its configuration";

TEST_F(AgentTest, OffersNoCardUntilTheRuntimeHasCdi) {
  run_runtime(kWithoutCdi);
  AgentOptions asking = options();
  asking.access_period = std::chrono::milliseconds(1);
  start(asking);
  ASSERT_TRUE(eventually([this] { return ready_reason() == "NoHealthyCards"; }));
  EXPECT_THAT(std::string(api_.condition("MGPUReady")["message"]), HasSubstr(kHowToGetCdi));
  EXPECT_THAT(announced(), testing::Each(testing::Field(&CardFacts::health, kHowToGetCdi)));
  EXPECT_EQ(devices(), 0U);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_THAT(get("/readyz").body, HasSubstr(kHowToGetCdi));
  run_runtime("{}");
  EXPECT_TRUE(eventually([this] { return agent_->ready() && devices() == 200U; }));
}

// The record of an earlier version, whose containers may have device nodes without CDI.
TEST_F(AgentTest, AContainerWithDeviceNodesKeepsItsCardsAndDoesNotStartAgain) {
  start_ready();
  const std::string allocation = run("a", 1);
  end();
  std::string record = read_file(path("/state/allocations/" + allocation + ".json"), 4'096).value();
  record.replace(record.find(allocation), allocation.size(), allocation + "0");
  fs::remove(path("/state/allocations/" + allocation + ".json"));
  std::ofstream(path("/state/allocations/" + allocation + "0.json")) << record;
  fs::create_directories(path("/run/allocations/" + allocation + "0/dev"));
  run_runtime(kWithoutCdi);
  AgentOptions asking = options();
  asking.access_period = std::chrono::milliseconds(1);
  start(asking);
  ASSERT_TRUE(eventually([this] { return devices() == 30U; })) << "what the container holds";
  ASSERT_THAT(allocations(), SizeIs(1));
  EXPECT_EQ(allocations()[0]["owner"]["pod"], "a");
  EXPECT_THAT(pre_start(device_ids(30)), HasSubstr(kHowToGetCdi));
  run_runtime("{}");
  ASSERT_TRUE(eventually([this] { return agent_->ready() && devices() == 200U; }));
  EXPECT_THAT(pre_start(device_ids(30)), HasSubstr("device nodes without CDI"));
  EXPECT_FALSE(fs::exists(path("/run/allocations"))) << "no container starts from it";
  EXPECT_THAT(allocations(), SizeIs(1));
}

TEST_F(AgentTest, FailsWithoutAUsableStateFolder) {
  std::ofstream(path("/state")) << "in the way";
  const auto started = Agent::start(options(), cards_file_source(path("/cards.yaml")),
                                    api_.transport(), [](const std::string&) {});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("--state-dir: "));
}

TEST_F(AgentTest, MayBeDestroyedDuringStartUp) {
  fs::remove(path("/cards.yaml"));
  start(options());
  end();
  runtime_.reset();
  start(options());
  end();
}

// --- containers ----------------------------------------------------------------------------------

TEST_F(AgentTest, InjectsTheCardsOfAPod) {
  start_ready();
  const std::string allocation = run("a", 1);
  EXPECT_EQ(injected(allocation, "MGPU_CARDS"), "1");
  EXPECT_EQ(injected(allocation, "MGPU_CARD_UUIDS"), "GPU-1");
  EXPECT_EQ(injected(allocation, "MGPU_MEMORY_MIB"), "1000");
  ASSERT_THAT(allocations(), SizeIs(1));
  EXPECT_EQ(allocations()[0]["owner"]["pod"], "a");
  EXPECT_TRUE(fs::exists(path("/state/allocations/" + allocation + ".json")));
}

TEST_F(AgentTest, PreStartDefinesTheDeviceThatAllocateNames) {
  start_ready();
  const auto answers = kubelet_->allocate(kCore, {device_ids(30)});
  ASSERT_TRUE(answers) << answers.error().message;
  const std::string allocation = answers->at(0).environment.at("MGPU_ALLOCATION");
  EXPECT_THAT(answers->at(0).cdi_devices,
              testing::ElementsAre("vke.volcengine.com/mgpu=" + allocation));
  EXPECT_EQ(injected(allocation, "MGPU_CARDS"), "none");
}

TEST_F(AgentTest, RecordsAnEventWhenAContainerMayNotStart) {
  start_ready();
  api_.create("a", {{"main", 30, 1'000, "7"}});
  const std::string allocation = allocate("a", device_ids(30));
  EXPECT_THAT(pre_start(device_ids(30)), HasSubstr("is assigned card 7"));
  EXPECT_TRUE(
      eventually([this] { return contains("is assigned card 7", event("MGPUNoSuchCard")); }));
  EXPECT_EQ(injected(allocation, "MGPU_CARDS"), "none");
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("mgpu_plugin_prestart_refusals_total{reason=\"no_such_card\"} 1"));
}

TEST_F(AgentTest, MayBeDestroyedDuringAPreStart) {
  start_ready();
  allocate("nobody", device_ids(30));
  auto refused = std::async(std::launch::async, [this] { return pre_start(device_ids(30)); });
  ASSERT_TRUE(eventually([this] { return pod_resources_->calls() >= 2; }));
  end();
  EXPECT_NE(refused.get(), "started");
}

// --- restarts ------------------------------------------------------------------------------------

TEST_F(AgentTest, RunningContainersAreKeptWhenItEnds) {
  start_ready();
  const std::string allocation = run("a", 1);
  end();
  EXPECT_TRUE(fs::exists(path("/state/allocations/" + allocation + ".json")));
  EXPECT_EQ(injected(allocation, "MGPU_CARDS"), "1");
  EXPECT_EQ(ready_reason(), "CardsReady");
  EXPECT_THAT(announced(), SizeIs(2));
}

// As in an upgrade that starts the new process before it ends the old one.
TEST_F(AgentTest, AProcessThatIsReplacedLeavesTheNodeToItsSuccessor) {
  start_ready();
  const std::string early = run("a", 1);
  const auto old = std::exchange(agent_, nullptr);
  start_ready();
  EXPECT_FALSE(old->ready());
  api_.create("b", {{"main", 20, 1'000, "0"}});
  const std::string late = allocate("b", device_ids(20, 30));
  ASSERT_EQ(pre_start(device_ids(20, 30)), "started");
  EXPECT_EQ(injected(early, "MGPU_CARDS"), "1");
  EXPECT_EQ(injected(late, "MGPU_CARDS"), "0");
  agent_.reset();
  ASSERT_TRUE(eventually([this] { return contains(fatal(), "that had replaced this one"); }));
}

TEST_F(AgentTest, ARestartedContainerGetsTheSameCards) {
  start_ready();
  const std::string allocation = run("a", 1);
  end();
  fs::remove_all(path("/cdi"));  // as after a reboot
  start_ready();
  EXPECT_EQ(allocations()[0]["allocation"], allocation);
  EXPECT_EQ(pre_start(device_ids(30)), "started");
  EXPECT_EQ(injected(allocation, "MGPU_CARDS"), "1");
  EXPECT_THAT(allocations(), SizeIs(1));
}

TEST_F(AgentTest, ARestartedContainerNeedsNoApiServer) {
  start_ready();
  run("a", 1);
  end();
  api_.cut_off(true);
  start_ready();
  EXPECT_EQ(pre_start(device_ids(30)), "started");
}

TEST_F(AgentTest, KeepsRunningContainersInTheCdiSpec) {
  start_ready();
  const std::string before = run("a", 1);
  end();
  start_ready();
  api_.create("b", {{"main", 20, 1'000, "0"}});
  const std::string now = allocate("b", device_ids(20, 30));
  ASSERT_EQ(pre_start(device_ids(20, 30)), "started");
  EXPECT_EQ(injected(before, "MGPU_CARDS"), "1");
  EXPECT_EQ(injected(now, "MGPU_CARDS"), "0");
}

TEST_F(AgentTest, RebuildsLostRecordsFromKubeletsCheckpoint) {
  start_ready();
  const std::string allocation = run("a", 1);
  const std::string before = allocations().dump();
  end();
  api_.set_container_id("a", "main", "c0ffee");
  const std::string uid = Json::parse(before)[0]["owner"]["uid"];
  test::write_checkpoint(path("/plugins"), {{uid, "main", device_ids(30), allocation}});
  fs::remove_all(path("/state"));
  start_ready();
  EXPECT_EQ(allocations().dump(), before);
}

TEST_F(AgentTest, RestoresLostIndicesFromTheAnnotation) {
  start_ready();
  ASSERT_TRUE(eventually([this] { return announced().size() == 2; }));
  end();
  fs::remove_all(path("/state"));
  write_cards({"Healthy"});
  start_ready();
  ASSERT_TRUE(eventually([this] { return ready_reason() == "SomeCardsUnhealthy"; }));
  ASSERT_THAT(announced(), SizeIs(2)) << "the other is in the annotation";
  EXPECT_EQ(announced()[1].health, "Lost");
}

TEST_F(AgentTest, OffersNoDevicesWhileTheIndicesAreUnknown) {
  api_.cut_off(true);
  start(options());
  ASSERT_TRUE(eventually([this] { return contains("the cards", get("/readyz").body); }));
  EXPECT_EQ(devices(), 0U);
  api_.cut_off(false);
  EXPECT_TRUE(eventually([this] { return agent_->ready() && devices() == 200U; }));
}

TEST_F(AgentTest, RegistersAgainAfterKubeletRestarts) {
  start_ready();
  kubelet_.reset();
  kubelet_ = std::make_unique<test::FakeKubelet>(path("/plugins"));
  EXPECT_TRUE(eventually([this] { return devices() == 200U; }));
  EXPECT_TRUE(eventually([this] { return agent_->ready(); }));
}

// --- changes of the cards ------------------------------------------------------------------------

TEST_F(AgentTest, OffersAnUnhealthyCardAgainWhenItIsHealthy) {
  start_ready();
  write_cards({"Healthy", "XID 79"});
  EXPECT_TRUE(eventually([this] { return devices() == 100U; }));
  EXPECT_TRUE(eventually([this] { return ready_reason() == "SomeCardsUnhealthy"; }));
  EXPECT_TRUE(eventually([this] { return capacity(kMemory) == "32510"; }));
  EXPECT_EQ(announced()[1].health, "XID 79");
  EXPECT_TRUE(eventually([this] {
    return contains("card 1 (GPU-1) is not healthy: XID 79", event("MGPUCardUnhealthy", "default"));
  }));
  write_cards({"Healthy", "Healthy"});
  EXPECT_TRUE(eventually([this] { return devices() == 200U; }));
  EXPECT_TRUE(eventually([this] { return capacity(kMemory) == "65020"; }));
}

TEST_F(AgentTest, OffersWhatPodsHoldOfAnUnhealthyCardUntilTheyEnd) {
  start_ready();
  run("a", 1);
  write_cards({"Healthy", "XID 79"});
  EXPECT_TRUE(eventually([this] { return devices() == 130U; }));
  EXPECT_TRUE(eventually([this] { return capacity(kMemory) == "33510"; }));
  api_.remove("a");
  EXPECT_TRUE(eventually([this] { return devices() == 100U; }));
  EXPECT_TRUE(eventually([this] { return capacity(kMemory) == "32510"; }));
}

TEST_F(AgentReleaseTest, MarksTheReleaseOfTheDriverWhileTheNodeHasTheLabel) {
  start_ready();
  label_release("true");
  EXPECT_TRUE(eventually([this] { return is_release_marked(path("/run")); }));
  label_release("false");
  EXPECT_TRUE(eventually([this] { return !is_release_marked(path("/run")); }));
}

TEST_F(AgentReleaseTest, RemovesTheMarkOfAReleaseThatEndedWhileItDidNotRun) {
  ASSERT_TRUE(mark_release(path("/run"), true));
  start_ready();
  EXPECT_TRUE(eventually([this] { return !is_release_marked(path("/run")); }));
}

TEST_F(AgentReleaseTest, MarksAReleaseThatLastsSinceBeforeItStarted) {
  label_release("true");
  start(options());
  EXPECT_TRUE(eventually([this] { return is_release_marked(path("/run")); }));
}

TEST_F(AgentReleaseTest, KeepsTheMarkOfAReleaseWhileItCannotReadTheNode) {
  start_ready();
  end();
  ASSERT_TRUE(mark_release(path("/run"), true));
  api_.cut_off(true);
  start(options());
  EXPECT_EQ(devices(), 0) << "the driver may just be replaced";
  EXPECT_TRUE(is_release_marked(path("/run")));
  api_.cut_off(false);
  EXPECT_TRUE(eventually([this] { return devices() > 0; }));
  EXPECT_TRUE(eventually([this] { return !is_release_marked(path("/run")); }));
}

TEST_F(AgentReleaseTest, EndsOnceWhereOnlyANewProcessCanUseTheDriver) {
  auto cards = std::make_unique<test::ScriptedCards>(test::found_cards(1));
  test::ScriptedCards& source = *cards;
  std::mutex mutex;
  std::vector<std::string> problems;
  auto started =
      Agent::start(options(), std::move(cards), api_.transport(), [&](const std::string& problem) {
        const std::lock_guard lock(mutex);
        problems.push_back(problem);
      });
  ASSERT_TRUE(started) << started.error().message;
  source.say_restart("the driver was replaced");
  source.say(error("no cards"));
  const int reads = source.reads();
  EXPECT_TRUE(eventually([&] {
    source.interrupt();
    return source.reads() > reads + 2;
  }));
  started->reset();
  EXPECT_THAT(problems, testing::ElementsAre("the driver was replaced"));
}

TEST_F(AgentTest, RecordsAnEventForThePodsOfAnUnhealthyCard) {
  start_ready();
  run("a", 1);
  write_cards({"Healthy", "XID 79"});
  EXPECT_TRUE(eventually([this] {
    return contains("delete the pod so that it is scheduled on a healthy card",
                    event("MGPUCardUnhealthy"));
  }));
  EXPECT_THAT(pre_start(device_ids(30)), HasSubstr("not healthy: XID 79"));
}

TEST_F(AgentTest, ReportsAMissingCardAsLost) {
  start_ready();
  write_cards({"Healthy"});
  EXPECT_TRUE(eventually([this] { return devices() == 100U; }));
  EXPECT_TRUE(
      eventually([this] { return announced().size() == 2 && announced()[1].health == "Lost"; }));
}

TEST_F(AgentTest, KeepsItsDevicesIfTheCardsFileIsInvalid) {
  start_ready();
  std::ofstream(path("/cards.yaml")) << "cards: 7\n";
  EXPECT_TRUE(eventually([this] { return ready_reason() == "CardsUnreadable"; }));
  EXPECT_EQ(api_.condition("MGPUReady")["status"], "Unknown");
  EXPECT_EQ(devices(), 200U);
}

// --- monitoring ----------------------------------------------------------------------------------

TEST_F(AgentTest, RecordsAnEventForAPodThatExceedsItsMemory) {
  start_ready();
  run("a", 1);
  run_process("a");
  write_cards({"Healthy", "Healthy"}, test::kCardMemory, "[{pid: 11, memoryMiB: 2000}]");
  EXPECT_TRUE(eventually([this] {
    return contains("uses 2000 MiB of card 1 and holds 1000 MiB", event("MGPUMemoryExceeded"));
  }));
  EXPECT_FALSE(api_.pod("a")["metadata"].contains("deletionTimestamp"));
}

TEST_F(AgentTest, EvictsAPodThatExceedsItsMemory) {
  AgentOptions evicting = options();
  evicting.enforcement = Enforcement::kEvict;
  start_ready(evicting);
  run("a", 1);
  run_process("a");
  write_cards({"Healthy", "Healthy"}, test::kCardMemory, "[{pid: 11, memoryMiB: 2000}]");
  EXPECT_TRUE(
      eventually([this] { return api_.pod("a")["metadata"].contains("deletionTimestamp"); }));
  EXPECT_TRUE(
      eventually([this] { return contains("is to be evicted", event("MGPUMemoryExceeded")); }));
}

TEST_F(AgentTest, RemovesTheAccountOfUseOfEarlierVersions) {
  std::filesystem::create_directories(options().state_folder);
  const std::string file = options().state_folder + "/use.json";
  for (const char* rest : {"", ".x1.part"}) {
    std::ofstream(file + rest) << "{\"version\": 1}";
    std::filesystem::last_write_time(
        file + rest, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  start_ready();
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(file + ".x1.part"));
}

// --- memory as a device-plugin resource ----------------------------------------------------------

TEST_F(AgentTest, OffersOneDeviceForEachMebibyte) {
  write_cards({"Healthy", "Healthy"}, 1'000);
  AgentOptions by_kubelet = options();
  by_kubelet.memory_resource = MemoryResource::kDevicePlugin;
  start_ready(by_kubelet);
  EXPECT_TRUE(eventually([this] { return devices(kMemory) == 2'000U; }));
  EXPECT_FALSE(kubelet_->pre_start_required(kMemory));
  EXPECT_TRUE(kubelet_->allocate(kMemory, {{"0", "1"}}));
  EXPECT_EQ(capacity(kMemory), "") << "kubelet publishes it";
  write_cards({"Healthy", "XID 79"}, 1'000);
  EXPECT_TRUE(eventually([this] { return devices(kMemory) == 1'000U; }));
}

TEST_F(AgentTest, FailsIfTheListOfMemoryDevicesIsTooLong) {
  write_cards({"Healthy", "Healthy", "Healthy", "Healthy"}, 80'000);
  AgentOptions by_kubelet = options();
  by_kubelet.memory_resource = MemoryResource::kDevicePlugin;
  start(by_kubelet);
  ASSERT_TRUE(eventually([this] { return !fatal().empty(); }));
  EXPECT_THAT(fatal(), HasSubstr("320000"));
  EXPECT_EQ(devices(), 0U);
}

}  // namespace
}  // namespace mgpu::plugin
