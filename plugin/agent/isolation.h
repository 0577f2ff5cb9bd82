// How the shares of containers are enforced on this node. Their memory: not at all, by a library in
// containers, by MPS for each process, or by the driver's limits. --isolation=auto uses the
// driver's limits if it can have them, else the library, else nothing. Their compute: not at all,
// by the library, or by MPS, which also serves containers whose memory the library or the driver
// limits.
//
//   Created --prepare(), not auto--> Chosen
//           --prepare(), auto--> Waiting for the first read of the cards --choose()--> Chosen
//   Chosen --switch_to()--> Chosen
//
// A card whose limits cannot be set is not offered: a container on it could use all of its memory.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "plugin/agent/exclusive_cards.h"
#include "plugin/agent/self_tests.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/cards/nvml/memory_limits.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/limit_server.h"
#include "plugin/containers/limit_setter.h"
#include "plugin/containers/share_pages.h"
#include "plugin/state/records.h"
#include "plugin/turns/turns.h"

namespace mgpu::plugin {

enum class IsolationMode { kAuto, kNone, kIntercept, kMps, kDriver };

// Returns the value of --isolation: "auto", "none", "intercept", "mps", "driver".
std::string_view to_string(IsolationMode mode);
// kNone for any other text.
IsolationMode isolation_mode(std::string_view name);

// What limits the compute of containers. kMps is that of IsolationMode::kMps, too.
enum class ComputeMode { kNone, kBurst, kFixed, kMps };

// Returns the value of --compute: "none", "burst", "fixed", "mps".
std::string_view to_string(ComputeMode mode);
// kNone for any other text.
ComputeMode compute_mode(std::string_view name);
// What limits compute if `memory` limits the memory and --compute is `wanted`; as if there were a
// limit of memory if `memory` is kAuto.
ComputeMode compute_with(IsolationMode memory, ComputeMode wanted);

struct IsolationSettings {
  IsolationMode mode = IsolationMode::kNone;
  MpsOptions mps;
  bool mps_exclusive = false;  // see ExclusiveCards; with MPS only
  // Containers with parts of several cards start though MPS enforces shares and cannot limit them.
  bool mps_parts_without_limits = false;
  NvmlCallOptions nvml;
  // mgpu-set-limits on the node. Empty: the program beside this one is copied to `hook_folder`,
  // which must permit to run programs.
  std::string hook_path;
  std::string hook_folder;
  std::string run_folder;   // of the socket of mgpu-set-limits, and of the pages of shares
  std::string proc_folder;  // the node's /proc
  // Has libmgpu-cuda.so and libmgpu-nvml.so, which are copied to `hook_folder`, and
  // mgpu-check-share. Empty: the folder of this program.
  std::string library_folder;
  MiB context{0};  // what a context of the driver takes of a card
  // The library of kIntercept has the rules of kBurst and kFixed, MPS is used besides the library
  // and the driver.
  ComputeMode compute = ComputeMode::kNone;
  bool self_test = false;  // cards on which the library does not hold its limit are not offered
};

class Isolation {
 public:
  // `records` outlives it, and `cards` is called until stop().
  Isolation(IsolationSettings settings, const Records& records,
            std::function<std::vector<CardFacts>()> cards);

  // Replaces those of the settings. Before prepare(); the same thread.
  void set_modes(IsolationMode mode, ComputeMode compute) {
    mode_ = mode;
    compute_ = compute;
  }
  // Prepares the mode before the cards are read. One thread.
  void prepare();
  // Chooses the mode after the cards were read for the first time. Blocks while the driver does.
  // The same thread.
  void choose();
  // Enforces shares in another way from now on, as if it had been the mode from the beginning.
  // Blocks while the driver does. REQUIRES: no container holds a card that was given to it by the
  // last mode. The same thread.
  void switch_to(IsolationMode mode) { switch_to(mode, compute_); }
  void switch_to(IsolationMode mode, ComputeMode compute);
  // Serves no more containers. Containers that run keep their limits.
  void stop();
  // The requested mode; kAuto stays kAuto. Any thread.
  IsolationMode mode() const { return mode_; }

  // Any thread. kAuto: it is not chosen yet.
  IsolationMode chosen() const { return chosen_; }
  ComputeMode compute() const { return compute_with(chosen_, compute_); }
  // What limits compute if the mode is mode(). Any thread.
  ComputeMode wanted_compute() const { return compute_with(mode_, compute_); }
  // Returns the rule by which the library deals turns; not set: it deals none. Any thread.
  std::optional<TurnRule> turns() const;
  // Why kAuto is not the driver, one sentence without its full stop; empty: it is, or the mode is
  // another one. Any thread.
  std::string fallback() const;
  // Why this card must not be offered: a container on it would have no limit. One sentence; empty:
  // there is no reason. Logs a new problem. Blocks while the driver does. Any thread. `shared` is
  // what every container with a card gets.
  std::string problem_of(const FoundCard& card, const Edits& shared);
  // The self test of the library on each card, and whether one runs. Any thread.
  std::map<CardUuid, SelfTest> self_tests() const;
  bool testing() const { return self_tests_.running(); }
  // Forgets the self tests of all other cards. Any thread.
  void keep_self_tests(const std::vector<FoundCard>& found);
  // The healthy cards, from now on. Any thread.
  void set_cards(const std::vector<CardUuid>& cards);
  // Each is null unless it is used. After choose(); any thread.
  const Mps* mps() const;
  // Null also if the hook cannot be installed.
  const LimitHook* mps_hook() const;
  const LimitHook* driver_hook() const;
  const ShareLibrary* library() const;
  // All of these, without ShareLimits::before_start.
  ShareLimits limits() const { return {mps(), mps_hook(), driver_hook(), library()}; }
  const SharePages& pages() const { return pages_; }
  // Empty unless MPS enforces the shares. Any thread.
  std::vector<MpsState> mps_states() const;
  // Checks that MPS can limit a container that is about to start, makes its pages, and sets the
  // compute modes of its cards. Errors: it must not start; one sentence. Blocks while the driver
  // does. Any thread.
  Result<void> before_start(const Record& record);
  // Whether containers with parts of several cards do not start. Any thread.
  bool parts_of_one_card() const { return uses_mps() && !settings_.mps_parts_without_limits; }
  // Corrects the compute modes of cards, again and again. `found`: as last read. Blocks while the
  // driver does. One thread.
  void follow_modes(const std::vector<FoundCard>& found, bool released);
  // Restores the MPS namespaces of running containers that a daemon has lost, and removes those of
  // containers that have ended. Blocks while a daemon does not respond. Any thread.
  void keep_shares() const;
  // Empty unless cards are to be exclusive. `found`: as last read. Any thread.
  std::map<CardUuid, bool> exclusive_cards(const std::vector<FoundCard>& found) const {
    return exclusive_.exclusive(found);
  }
  // The record of a container was removed. Any thread.
  void on_removed(const AllocationId& id);

 private:
  bool uses_mps() const { return compute() == ComputeMode::kMps; }
  std::string driver_problem_of(const CardUuid& card);
  std::string library_problem(const FoundCard& card, const Edits& shared);
  SelfTest test_library(const FoundCard& card, const SelfTestInput& input, bool offered,
                        const std::atomic<bool>& cancelled) const;
  // The folder with the libraries and mgpu-check-share.
  std::string program_folder() const;
  // Why the driver's limits cannot be set for this card. One sentence; empty: they can.
  std::string limit_problem(const CardUuid& card);
  Result<void> set_up_hook();
  void set_up_mps_hook();
  Result<void> can_use_library();
  Result<void> set_up_library();
  // Why the driver's limits cannot be set for the cards of this node; empty: they can.
  std::string driver_problem();
  void settle(IsolationMode mode, const std::string& reason);

  const IsolationSettings settings_;
  const Records& records_;
  const std::function<std::vector<CardFacts>()> cards_of_node_;
  ComputeModes modes_;
  ExclusiveCards exclusive_;
  MemoryLimits limits_;
  LimitSetter setter_;
  std::atomic<IsolationMode> mode_;
  std::atomic<ComputeMode> compute_;
  // Used by the thread of prepare() and choose(). Others may read the hooks after the choice.
  std::unique_ptr<LimitServer> server_;
  LimitHook hook_;
  LimitHook mps_hook_;
  ShareLibrary library_;
  SharePages pages_;
  SelfTests self_tests_;
  std::atomic<IsolationMode> chosen_ = IsolationMode::kAuto;

  mutable Mutex mutex_;
  std::set<CardUuid> limitable_ MGPU_GUARDED_BY(mutex_);
  std::string fallback_ MGPU_GUARDED_BY(mutex_);
  std::map<CardUuid, std::string> logged_ MGPU_GUARDED_BY(mutex_);
  std::vector<CardUuid> cards_ MGPU_GUARDED_BY(mutex_);
  // Once it was made it stays, since others may still use the pointer.
  std::unique_ptr<Mps> mps_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
