// A PreStartHandler with everything around it: an API server, kubelet's list, cards and a state
// folder.
#pragma once

#include <gtest/gtest.h>

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

class StarterTest : public testing::Test {
 public:
  using Started = Decided<void>;
  using Ids = std::vector<std::string>;

  StarterTest() {
    EXPECT_TRUE(set_log_level("off"));
    inventory_.start();
    EXPECT_TRUE(comes_true([this] { return inventory_.state().read; }));
    start_plugin();
    starter_->open();
  }
  ~StarterTest() override {
    starter_.reset();
    pods_.reset();
    inventory_.stop();
  }

  // As a new process of the plugin, that is not open yet.
  void start_plugin(std::chrono::milliseconds settle = {}) {
    starter_.reset();
    pods_ = std::make_unique<Pods>(NodeName("n1"), api_.transport(), nullptr);
    pods_->start();
    records_ = std::make_unique<Records>(records_folder());
    EXPECT_TRUE(records_->load());
    const StarterSettings settings = {contract(), NodeName("n1"), folder_.path(), settle};
    starter_ = std::make_unique<PreStartHandler>(
        settings,
        StarterParts{*records_, injector_, inventory_, nullptr, *pods_, kubelet_.client()},
        [this](const Refusal& refusal) {
          const std::lock_guard lock(mutex_);
          refusals_.push_back(refusal);
        });
  }

  // --- how a container comes to be started -------------------------------------------------------

  // As Allocate.
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
  // Pod ml/`pod` whose container "main" has `core` percent of card `card`, up to PreStart.
  Record place(const std::string& pod, int core, int card, int first_device = 0) {
    create(pod, {{"main", core, 1'000, std::to_string(card)}});
    const Ids ids = device_ids(core, first_device);
    kubelet_.list(pod, "main", ids);
    return allocate(ids, pod);
  }

  // Waits as long as the starter does.
  Started start(const Ids& ids) {
    return starter_->start(ids, [] { return false; });
  }
  // One look.
  Started start_once(const Ids& ids) {
    return starter_->start(ids, [] { return true; });
  }
  std::future<Started> start_beside(const Ids& ids) {
    return std::async(std::launch::async, [this, ids] { return start(ids); });
  }
  // The starter has looked so often and waits for news, or is about to look again.
  void after_looks(int looks) {
    EXPECT_TRUE(comes_true([&] { return kubelet_.calls() >= looks; }));
  }

  // --- what came of it ---------------------------------------------------------------------------

  std::string cards_of(const AllocationId& id) const {
    const auto injected = injector_.injected();
    const auto at = injected.find(id);
    return at == injected.end() ? "none" : at->second.environment.at("MGPU_CARDS");
  }
  // What the next process would find.
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
  RecordingInjector injector_;
  // Ends with the inventory.
  ScriptedCards* cards_ = new ScriptedCards(found_cards(4));
  Inventory inventory_{std::unique_ptr<CardSource>(cards_),
                       {.load_known = [] { return KnownCards(); },
                        .save_known = [](const KnownCards&) { return true; },
                        .on_change = [](const InventoryState&, const InventoryState&) {},
                        .now = [] { return "2026-01-02T00:00:00Z"; }}};
  std::unique_ptr<Records> records_;
  std::unique_ptr<Pods> pods_;
  std::unique_ptr<PreStartHandler> starter_;
  mutable std::mutex mutex_;
  std::vector<Refusal> refusals_;  // protected by mutex_
};

// Of a container that was not started; "started" where it was.
inline std::string sentence(const StarterTest::Started& started) {
  return started ? "started" : started.error().message;
}

}  // namespace mgpu::test
