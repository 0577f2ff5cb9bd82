// What the agent reports when other software can give its cards to containers.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "plugin/agent/access_facts.h"
#include "test/plugin/agent/agent_world.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using test::AgentTest;
using test::contains;
using test::eventually;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kRunc = R"({"containerd":{"defaultRuntimeName":"runc","runtimes":{
    "runc":{"runtimePath":"","options":{"BinaryName":""}},
    "nvidia":{"runtimePath":"","options":{"BinaryName":"/usr/bin/nvidia-container-runtime"}}}}})";
constexpr const char* kNvidia = R"({"containerd":{"defaultRuntimeName":"nvidia","runtimes":{
    "nvidia":{"runtimePath":"","options":{"BinaryName":"/usr/bin/nvidia-container-runtime"}}}}})";
constexpr const char* kSlice = R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSliceList",
    "metadata":{},"items":[{"metadata":{"name":"a"},"spec":{"driver":"gpu.nvidia.com"}}]})";

class AgentAccessTest : public AgentTest {
 public:
  AgentAccessTest() {
    write_toolkit("accept-nvidia-visible-devices-envvar-when-unprivileged = false\n");
    run_runtime(kRunc);
  }
  void write_toolkit(const std::string& text) const {
    const std::string folder = path("/node/etc/nvidia-container-runtime");
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.toml") << text;
  }
  void set_nvidia_gpus(const char* amount) {
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1/status",
              Json{{"status", {{"capacity", {{"nvidia.com/gpu", amount}}}}}}.dump());
  }
  void answer_slices(int status, const std::string& body) {
    api_.transport().set_faults([=](const kube::Request& request) -> std::optional<test::Fault> {
      if (!contains("/resource.k8s.io/v1/resourceslices?", request.target)) return std::nullopt;
      return test::Fault{.status = status, .body = body};
    });
  }
  // The agent samples every few seconds, and when its cards change.
  void wake() { write_cards({"Healthy", "XID 79"}); }
  // Checks again after each sample.
  AgentOptions checking() const {
    AgentOptions checking = options();
    checking.node_root = path("/node");
    checking.access_period = milliseconds(1);
    return checking;
  }
  std::string exclusive(const std::string& field) {
    const Json condition = api_.condition("MGPUCardsExclusive");
    return condition.is_object() ? condition.value(field, "") : "";
  }
  bool becomes(const std::string& status, const std::string& reason) {
    return eventually(
        [&] { return exclusive("status") == status && exclusive("reason") == reason; });
  }
  bool measured(const std::string& reason, int value) {
    const std::string line =
        "mgpu_other_access{reason=\"" + reason + "\"} " + std::to_string(value);
    return eventually([&] { return contains(line + "\n", get("/metrics").body); });
  }
  AccessFacts facts() {
    return access_facts({.node = NodeName("n1"),
                         .runtime_socket = path("/runtime.sock"),
                         .cdi_folder = path("/cdi"),
                         .node_root = path("/node"),
                         .timeout = std::chrono::minutes(1)},
                        api_.transport(), [] { return false; });
  }
};

TEST_F(AgentAccessTest, SaysThatOnlyItGivesOutTheCards) {
  start_ready(checking());
  EXPECT_TRUE(becomes("True", "OnlyMGPU"));
  EXPECT_TRUE(measured("DefaultRuntime", 0));
  EXPECT_TRUE(measured("NotChecked", 0));
  EXPECT_EQ(event("MGPUOtherAccess", "default"), "");
}

TEST_F(AgentAccessTest, TellsAnotherDevicePluginUntilItIsRemoved) {
  set_nvidia_gpus("8");
  start(checking());
  EXPECT_TRUE(becomes("False", "NvidiaDevicePlugin"));
  EXPECT_TRUE(measured("NvidiaDevicePlugin", 1));
  EXPECT_TRUE(eventually([this] {
    return contains("the node has nvidia.com/gpu", event("MGPUOtherAccess", "default"));
  }));
  set_nvidia_gpus("0");
  wake();
  EXPECT_TRUE(becomes("True", "OnlyMGPU"));
  EXPECT_TRUE(measured("NvidiaDevicePlugin", 0));
}

TEST_F(AgentAccessTest, OffersNoCardThatAnotherDevicePluginGivesOut) {
  const auto becomes_health = [this](std::string_view health) {
    return eventually([&] {
      const std::vector<CardFacts> cards = announced();
      return !cards.empty() && std::ranges::all_of(cards, [&](const CardFacts& card) {
        return card.health == health;
      });
    });
  };
  set_nvidia_gpus("8");
  start(options());
  EXPECT_TRUE(becomes_health(
      "another device plugin gives it out as nvidia.com/gpu; remove that from the node"));
  EXPECT_FALSE(devices() > 0);
  set_nvidia_gpus("0");
  EXPECT_TRUE(becomes_health(kHealthy));
  EXPECT_TRUE(eventually([this] { return devices() > 0; }));
}

TEST_F(AgentAccessTest, OffersCardsBesideAnotherDevicePluginIfSomebodySaysSo) {
  set_nvidia_gpus("8");
  AgentOptions beside = checking();
  beside.beside_nvidia = true;
  start_ready(std::move(beside));
  EXPECT_TRUE(becomes("False", "NvidiaDevicePlugin"));
  EXPECT_EQ(announced().at(0).health, kHealthy);
}

TEST_F(AgentAccessTest, ReportsARuntimeThatBecomesTheDefault) {
  start_ready(checking());
  ASSERT_TRUE(becomes("True", "OnlyMGPU"));
  write_toolkit("");
  run_runtime(kNvidia);
  wake();
  EXPECT_TRUE(becomes("False", "DefaultRuntime"));
  EXPECT_TRUE(eventually([this] {
    return contains("nvidia is the default of the container runtime",
                    event("MGPUOtherAccess", "default"));
  }));
}

TEST_F(AgentAccessTest, RecordsOneEventForOneFinding) {
  set_nvidia_gpus("8");
  start(checking());
  ASSERT_TRUE(becomes("False", "NvidiaDevicePlugin"));
  answer_slices(200, kSlice);
  wake();
  ASSERT_TRUE(eventually([this] { return contains("ResourceSlice", exclusive("message")); }))
      << "the check ran again";
  const auto counts = [this] {
    std::vector<int> counts;
    for (const Json& one : api_.events("default"))
      if (one["reason"] == "MGPUOtherAccess") counts.push_back(one["count"]);
    return counts;
  };
  ASSERT_TRUE(eventually([&] { return counts().size() >= 2; }));
  EXPECT_THAT(counts(), ElementsAre(1, 1));
}

TEST_F(AgentAccessTest, ReportsWhatItCouldNotCheck) {
  start_ready(checking());
  ASSERT_TRUE(becomes("True", "OnlyMGPU")) << "the check at the start is over";
  runtime_.reset();
  wake();
  EXPECT_TRUE(becomes("Unknown", "NotChecked"));
  EXPECT_THAT(exclusive("message"), HasSubstr("did not answer"));
  EXPECT_TRUE(measured("NotChecked", 1));
  EXPECT_TRUE(agent_->ready()) << "pods with cards start all the same";
}

// --- the facts -----------------------------------------------------------------------------------

TEST_F(AgentAccessTest, AsksTheRuntimeForItsHandlers) {
  EXPECT_EQ(facts().default_handler, "runc");
  EXPECT_THAT(facts().nvidia_handlers, ElementsAre("nvidia"));
  EXPECT_FALSE(facts().toolkit.by_environment);
  EXPECT_THAT(facts().problems, IsEmpty());
}

TEST_F(AgentAccessTest, ARuntimeThatDoesNotReportItsDefaultIsAProblem) {
  runtime_.reset();
  runtime_.emplace(path("/runtime.sock"), "cri-o", "1.33.1", std::map<std::string, std::string>{});
  EXPECT_THAT(facts().problems,
              ElementsAre("cri-o 1.33.1 does not report its default runtime; check that it is not "
                          "NVIDIA's"));
}

TEST_F(AgentAccessTest, AnAPIServerWithoutDynamicResourcesIsNoProblem) {
  EXPECT_FALSE(facts().has_resource_slice);
  EXPECT_THAT(facts().problems, IsEmpty());
}

TEST_F(AgentAccessTest, ReadsTheResourceSlices) {
  answer_slices(200, kSlice);
  EXPECT_TRUE(facts().has_resource_slice);
  answer_slices(200, R"({"items":[]})");
  EXPECT_FALSE(facts().has_resource_slice);
  for (const auto& [status, body] :
       {std::pair(403, R"({"kind":"Status","message":"no right"})"), std::pair(200, "{")}) {
    answer_slices(status, body);
    EXPECT_FALSE(facts().has_resource_slice);
    EXPECT_THAT(facts().problems, ElementsAre(HasSubstr("list resourceslices: ")));
  }
}

TEST_F(AgentAccessTest, AnAPIServerThatDoesNotAnswerIsAProblem) {
  api_.cut_off(true);
  EXPECT_THAT(facts().problems,
              ElementsAre(HasSubstr("get node n1: "), HasSubstr("list resourceslices: ")));
}

}  // namespace
}  // namespace mgpu::plugin
