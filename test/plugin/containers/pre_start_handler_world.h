// A PreStartHandler with an API server, a scripted PodResources, cards and a state folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "plugin/containers/pre_start_handler.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::test {

using namespace plugin;

class PreStartHandlerTest : public testing::Test {
 public:
  using Started = Decided<void>;
  using Ids = std::vector<std::string>;

  PreStartHandlerTest() {
    EXPECT_TRUE(set_log_level("off"));
    std::filesystem::create_directory(folder_.path("proc"));
    inventory_.start();
    EXPECT_TRUE(comes_true([this] { return inventory_.state().read; }));
    start_plugin();
    handler_->open();
  }
  ~PreStartHandlerTest() override {
    handler_.reset();
    pods_.reset();
    inventory_.stop();
  }

  // As a restarted plugin, whose handler is not open yet.
  void start_plugin(std::chrono::milliseconds settle = {}) {
    handler_.reset();
    pods_ = std::make_unique<Pods>(NodeName("n1"), api_.transport());
    pods_->start();
    records_ = std::make_unique<Records>(records_folder());
    EXPECT_TRUE(records_->load());
    const PreStartOptions options = {contract(), NodeName("n1"), folder_.path(), settle};
    handler_ = std::make_unique<PreStartHandler>(
        options,
        PreStartDependencies{*records_, injector_, inventory_, nullptr, *pods_, kubelet_.client(),
                             processes_},
        [this](const Refusal& refusal) {
          const std::lock_guard lock(mutex_);
          refusals_.push_back(refusal);
        });
  }

  // --- steps before the container starts ---------------------------------------------------------

  // As kubelet's Allocate.
  Record allocate(const Ids& ids, const std::string& nonce = "a") {
    const auto record = allocated(ids, nonce);
    EXPECT_TRUE(records_->keep(record));
    EXPECT_TRUE(records_->save(record, Durability::kProcess));
    return record;
  }
  kube::Pod create(const std::string& pod, const std::vector<GpuContainer>& containers) {
    kube::Pod made = api_.create(pod, containers);
    EXPECT_TRUE(comes_true([&] { return pods_->find(made.uid()).has_value(); }));
    return made;
  }
  // Creates pod ml/`pod`, whose container "main" has `core` percent of card `card`, and allocates
  // its devices.
  Record place(const std::string& pod, int core, int card, int first_device = 0) {
    create(pod, {{"main", core, 1'000, std::to_string(card)}});
    const Ids ids = device_ids(core, first_device);
    kubelet_.list(pod, "main", ids);
    return allocate(ids, pod);
  }

  // Retries as the handler does.
  Started start(const Ids& ids) {
    return handler_->start(ids, [] { return false; });
  }
  // One attempt.
  Started start_once(const Ids& ids) {
    return handler_->start(ids, [] { return true; });
  }
  std::future<Started> start_async(const Ids& ids) {
    return std::async(std::launch::async, [this, ids] { return start(ids); });
  }
  void wait_for_attempts(int attempts) {
    EXPECT_TRUE(comes_true([&] { return kubelet_.calls() >= attempts; }));
  }

  // --- results -----------------------------------------------------------------------------------

  std::string cards_of(const AllocationId& id) const {
    const auto injected = injector_.injected();
    const auto at = injected.find(id);
    return at == injected.end() ? "none" : at->second.environment.at("MGPU_CARDS");
  }
  // The record that a restarted plugin would load.
  std::optional<Record> on_disk(const AllocationId& id) const {
    Records records(records_folder());
    EXPECT_TRUE(records.load());
    return records.find(id);
  }
  std::vector<Refusal> refusals() const {
    const std::lock_guard lock(mutex_);
    return refusals_;
  }
  std::string records_folder() const { return folder_.path("allocations"); }

  ScratchFolder folder_;
  PodApi api_;
  ScriptedPodResources kubelet_;
  const PodProcesses processes_{folder_.path("proc")};
  RecordingInjector injector_;
  // Owned by the inventory.
  ScriptedCards* cards_ = new ScriptedCards(found_cards(4));
  Inventory inventory_{std::unique_ptr<CardSource>(cards_),
                       {.load_known = [] { return KnownCards(); },
                        .save_known = [](const KnownCards&) { return true; },
                        .on_change = [](const InventoryState&, const InventoryState&) {},
                        .now = [] { return "2026-01-02T00:00:00Z"; }}};
  std::unique_ptr<Records> records_;
  std::unique_ptr<Pods> pods_;
  std::unique_ptr<PreStartHandler> handler_;
  mutable std::mutex mutex_;
  std::vector<Refusal> refusals_;  // protected by mutex_
};

// The refusal's message, or "started".
inline std::string sentence(const PreStartHandlerTest::Started& started) {
  return started ? "started" : started.error().message;
}

}  // namespace mgpu::test
