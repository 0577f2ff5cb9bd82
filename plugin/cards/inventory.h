// The cards of this node as they are now: reads the source in a thread of its own, binds indices to
// UUIDs for ever, and tells what changed.
//
//   Recalling (which indices were given?) --> Reading --> Told --change, or
//   kInventoryPeriod--> Reading; a source that fails keeps what was known and is asked
//   again
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/cards/card_index.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

struct InventoryState {
  bool read = false;             // the source has answered once
  std::string problem;           // one sentence while it does not
  std::vector<CardFacts> cards;  // ascending by index
  FoundCards found;
};

class Inventory {
 public:
  struct Hooks {
    // The cards this node had before, or none while that cannot be known yet. Called on the thread
    // of the inventory until it answers.
    std::function<std::optional<KnownCards>()> load_known;
    // Keeps them on disk; a failure is logged by the caller, and tried again at the next change.
    std::function<bool(const KnownCards&)> save_known;
    // On the thread of the inventory, after the first read and after each change.
    std::function<void(const InventoryState& before, const InventoryState& now)> on_change;
    std::function<std::string()> now;  // RFC 3339
  };

  Inventory(std::unique_ptr<CardSource> source, Hooks hooks);
  ~Inventory();

  void start();
  // Ends the thread; no hook is called any more. Idempotent.
  void stop();
  InventoryState state() const;  // any thread
  // Nodes of the card, empty where it is not there now. Any thread.
  std::vector<DeviceNode> nodes_of(const CardUuid& card) const;
  // What ran on the cards at the last look, kInventoryPeriod ago at most unless the driver
  // hangs. Any thread.
  std::vector<CardUse> use() const;
  // Of the source, as of the last look. Any thread.
  std::string description() const;

 private:
  void run();
  bool recall();
  void read();
  void look_at_use();
  bool wait(std::chrono::milliseconds timeout);  // false: ended

  const std::unique_ptr<CardSource> source_;
  const Hooks hooks_;
  KnownCards known_;  // on the thread
  bool remembered_ = true;
  std::string told_problem_;
  mutable Mutex mutex_;
  ConditionVariable ended_;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  InventoryState state_ MGPU_GUARDED_BY(mutex_);
  std::vector<CardUse> use_ MGPU_GUARDED_BY(mutex_);
  std::string description_ MGPU_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace mgpu::plugin
