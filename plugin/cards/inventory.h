// The cards of this node. A thread of its own reads the source, assigns permanent indices
// (card_index.h) and reports changes.
//
//   Loading (the indices assigned so far) --> Reading --> Waiting --change, or kInventoryPeriod-->
//   Reading ...
//
// While the source fails, the last known state stays, and the source is read again.
#pragma once

#include <cstdint>
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
  bool read = false;             // the source has been read successfully at least once
  std::string problem;           // one sentence while it cannot be read
  std::vector<CardFacts> cards;  // ascending by index
  CardLinks links{};             // of `cards`, by their positions; empty: unknown
  // As last read, before problem_of and held are applied. While the driver is released, all are
  // unhealthy.
  FoundCards found;
  bool operator==(const InventoryState&) const = default;
};

class Inventory {
 public:
  // All run on the thread of the inventory.
  struct Dependencies {
    // The cards that this node had before; none if they are not available yet. Called again until
    // it returns them.
    std::function<std::optional<KnownCards>()> load_known;
    // Writes them to disk. False: that failed, and was logged; called again after the next read.
    std::function<bool(const KnownCards&)> save_known;
    // Called after the first read and after each change.
    std::function<void(const InventoryState& before, const InventoryState& now)> on_change;
    std::function<std::string()> now;  // RFC 3339
    // Applies the node's profile to the cards, which have their indices here. Not set: nothing.
    std::function<void(std::vector<FoundCard>& cards)> apply_profile{};
    // What pods hold of the card. The capacity of a card does not become less than that, since
    // kubelet does not start pods again that exceed the node's capacity. Not set: none.
    std::function<Share(const CardUuid&)> held{};
    // Whether a pod may have the card, so that it is not forgotten. Not set: none is forgotten.
    std::function<bool(const CardUuid&)> in_use{};
    // Why a card that its source finds healthy is not offered; empty: it is. `shared` is what every
    // container with a card gets. Not set: all are.
    std::function<std::string(const FoundCard&, const Edits& shared)> problem_of{};
    // Why the driver must not be used now, one sentence; empty: it is used. The source is not read
    // then, and no card is offered. Not set: it is always used.
    std::function<std::string()> released{};
    // Called directly before and after the use of the cards is read. Not set: nothing.
    std::function<void()> around_use{};
    // Called after a read that failed, if only a new process can use the cards again; with the
    // reason, one sentence. Not set: it is not reported.
    std::function<void(const std::string& why)> on_restart_needed{};
  };

  Inventory(std::unique_ptr<CardSource> source, Dependencies dependencies);
  ~Inventory();

  void start();
  // Ends the thread. None of the dependencies is called after it returns. Idempotent.
  void stop();
  InventoryState state() const;  // any thread
  // Returns the number of reads so far. Any thread.
  std::uint64_t reads() const;
  // Requests another read. Any thread.
  void read_soon() { source_->interrupt(); }
  // The device nodes of the card; none if it is not found now. Any thread.
  std::optional<std::vector<DeviceNode>> nodes_of(const CardUuid& card) const;
  // The use of the cards as last read. It is at most kInventoryPeriod old unless the driver hangs.
  // Any thread.
  std::vector<CardUse> use() const;
  // The description of the source as last read. Any thread.
  std::string description() const;

 private:
  void run();
  void read();
  // The cards of the last read, with `why` as their health. Errors: there was no read.
  Result<FoundCards> released_cards(const FoundCards& before, const std::string& why) const;
  // The cards as they are offered.
  std::vector<FoundCard> offered_cards(const FoundCards& found) const;
  void apply_profile(std::vector<FoundCard>& cards) const;
  bool wait(std::chrono::milliseconds timeout);  // false: stop() was called

  const std::unique_ptr<CardSource> source_;
  const Dependencies dependencies_;
  // These are used by the thread alone.
  KnownCards known_;
  bool saved_ = true;
  std::string logged_problem_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ MGPU_GUARDED_BY(mutex_) = false;
  std::uint64_t reads_ MGPU_GUARDED_BY(mutex_) = 0;
  InventoryState state_ MGPU_GUARDED_BY(mutex_);
  std::vector<CardUse> use_ MGPU_GUARDED_BY(mutex_);
  std::string description_ MGPU_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace mgpu::plugin
