// The agent with an in-memory API server, a fake kubelet and a cards file, in one process.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "plugin/agent/agent.h"
#include "plugin/cards/file/cards_file.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/kubelet/fake_services.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/support/raw_http.h"

namespace mgpu::test {

using namespace plugin;

class AgentTest : public testing::Test {
 public:
  using Json = PodApi::Json;
  using Ids = std::vector<std::string>;

  AgentTest() {
    EXPECT_TRUE(set_log_level("off"));
    for (const char* name : {"/plugins", "/proc"}) std::filesystem::create_directory(path(name));
    api_.create_node();
    kubelet_ = std::make_unique<FakeKubelet>(path("/plugins"));
    run_runtime("{}");
    list({});
    write_cards({"Healthy", "Healthy"});
  }

  std::string path(const std::string& name) const { return folder_.path() + name; }

  // --- the node ----------------------------------------------------------------------------------

  // Card n is "GPU-<n>" with health[n]. The last card has `processes`.
  void write_cards(const std::vector<std::string>& health, std::int64_t memory = kCardMemory,
                   const std::string& processes = "[]") {
    std::string text = "cards:\n";
    for (std::size_t n = 0; n < health.size(); ++n) {
      const std::string number = std::to_string(n);
      text += "  - {index: " + number + ", uuid: GPU-" + number +
              ", model: V100, memoryMiB: " + std::to_string(memory) + ", health: \"" + health[n] +
              "\", devices: [/dev/nvidia" + number +
              "], processes: " + (n + 1 == health.size() ? processes : "[]") + "}\n";
    }
    // The file is replaced atomically.
    std::ofstream(path("/cards.part")) << text;
    std::filesystem::rename(path("/cards.part"), path("/cards.yaml"));
  }
  // Process 11, of container "main" of the pod.
  void run_process(const std::string& pod) {
    const std::string id(64, 'a');
    api_.set_container_id(pod, "main", id);
    const std::string uid = api_.pod(pod)["metadata"]["uid"];
    std::filesystem::create_directory(path("/proc/11"));
    std::ofstream(path("/proc/11/cgroup")) << "0::/kubepods/pod" << uid << "/" << id << "\n";
    std::ofstream(path("/proc/11/stat")) << "11 (python3) S 1 10 10 0 -1 4194560 100 0 0 0 5 6 0 0"
                                         << " 20 0 1 0 500 10000 200 0\n";
  }
  // A containerd with this configuration, in place of the one before.
  void run_runtime(const char* config) {
    runtime_.reset();
    runtime_.emplace(path("/runtime.sock"), "containerd", "v2.2.9",
                     std::map<std::string, std::string>{{"config", config}});
  }
  // The response of PodResources from now on.
  void list(std::vector<DeviceEntry> entries) {
    pod_resources_.reset();
    pod_resources_ =
        std::make_unique<FakePodResources>(path("/pod-resources.sock"), std::move(entries));
  }

  // --- the agent ---------------------------------------------------------------------------------

  AgentOptions options() const {
    AgentOptions options;
    options.contract = contract();
    options.node = NodeName("n1");
    options.plugin_folder = path("/plugins");
    options.pod_resources_socket = path("/pod-resources.sock");
    options.runtime_socket = path("/runtime.sock");
    options.state_folder = path("/state");
    options.run_folder = path("/run");
    options.cdi_folder = path("/cdi");
    options.proc_folder = path("/proc");
    return options;
  }
  void start(const AgentOptions& options) {
    agent_.reset();
    auto started = Agent::start(options, cards_file_source(path("/cards.yaml")), api_.transport(),
                                [this](const std::string& problem) {
                                  const std::lock_guard lock(mutex_);
                                  fatal_ = problem;
                                });
    ASSERT_TRUE(started) << started.error().message;
    agent_ = std::move(*started);
  }
  void start_ready(const AgentOptions& options) {
    start(options);
    const auto up = [this] { return agent_->ready() && devices() > 0; };
    ASSERT_TRUE(eventually(up)) << get("/readyz").body;
  }
  void start_ready() { start_ready(options()); }
  void end() { agent_.reset(); }
  RawResponse get(const std::string& target) const {
    RawClient client(agent_->port());
    EXPECT_TRUE(client.send(get_text(target)));
    return client.read_response();
  }
  std::string fatal() const {
    const std::lock_guard lock(mutex_);
    return fatal_;
  }

  // --- containers --------------------------------------------------------------------------------

  // Allocates devices for container "main" of pod ml/`pod`. Returns the allocation.
  std::string allocate(const std::string& pod, const Ids& ids) {
    const auto answers = kubelet_->allocate(kCore, {ids});
    EXPECT_TRUE(answers) << answers.error().message;
    list({{"ml/" + pod, "main", kCore, ids}});
    return answers ? answers->at(0).environment.at("MGPU_ALLOCATION") : "";
  }
  // Returns "started" or the error.
  std::string pre_start(const Ids& ids) {
    const auto started = kubelet_->pre_start(kCore, ids);
    return started ? "started" : started.error().message;
  }
  // Starts a pod with 30 percent of card `card`. Returns the allocation.
  std::string run(const std::string& pod, int card) {
    api_.create(pod, {{"main", 30, 1'000, std::to_string(card)}});
    const std::string allocation = allocate(pod, device_ids(30));
    EXPECT_EQ(pre_start(device_ids(30)), "started");
    return allocation;
  }

  // --- results -----------------------------------------------------------------------------------

  // The container's variable in the CDI spec, or "none".
  std::string injected(const std::string& allocation, const std::string& variable) const {
    std::ifstream file(path("/cdi/vke.volcengine.com-mgpu.json"));
    const Json spec = Json::parse(file, nullptr, false);
    if (!spec.is_object()) return "none";
    for (const Json& device : spec["devices"]) {
      if (device["name"] != allocation) continue;
      for (const std::string line : device["containerEdits"]["env"]) {
        if (line.starts_with(variable + "=")) return line.substr(variable.size() + 1);
      }
    }
    return "none";
  }
  Json allocations() const { return Json::parse(get("/allocations").body, nullptr, false); }
  std::size_t devices(const std::string& resource = kCore) const {
    const auto listed = kubelet_->devices(resource);
    return listed ? listed->size() : 0;
  }
  std::string ready_reason() {
    const Json condition = api_.condition("MGPUReady");
    return condition.is_object() ? condition["reason"] : "";
  }
  std::string capacity(const std::string& resource) {
    return api_.node()
        .value(Json::json_pointer("/status/capacity"), Json::object())
        .value(resource, "");
  }
  // The annotation of the node.
  NodeCards published() {
    const Json annotations =
        api_.node().value(Json::json_pointer("/metadata/annotations"), Json::object());
    const auto read = parse_node_annotation(annotations.value(contract().node_cards, ""));
    return read ? *read : NodeCards();
  }
  std::vector<CardFacts> announced() { return published().cards; }
  // The message of the first event with this reason, or "".
  std::string event(const std::string& reason, const std::string& name_space = "ml") {
    for (const Json& one : api_.events(name_space)) {
      if (one["reason"] == reason) return one["message"];
    }
    return "";
  }

  TemporaryFolder folder_;
  PodApi api_;
  std::unique_ptr<FakeKubelet> kubelet_;
  std::unique_ptr<FakePodResources> pod_resources_;
  std::optional<FakeRuntime> runtime_;
  mutable std::mutex mutex_;
  std::string fatal_;  // protected by mutex_
  std::unique_ptr<Agent> agent_;
};

inline bool contains(const std::string& words, const std::string& text) {
  return text.find(words) != std::string::npos;
}

}  // namespace mgpu::test
