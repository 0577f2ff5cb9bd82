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
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/agent/driver_limits.h"
#include "plugin/agent/isolation_options.h"
#include "plugin/agent/library_limits.h"
#include "plugin/agent/mps_limits.h"

namespace mgpu::plugin {

class Isolation {
 public:
  // `records` outlives it, and `cards` is called by choose() only.
  Isolation(IsolationOptions options, const Records& records,
            std::function<std::vector<CardFacts>()> cards);

  // Replaces those of the options. Before prepare(); the same thread.
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
  void switch_to(IsolationMode mode, ComputeMode compute);
  // Serves no more containers. Containers that run keep their limits. The same thread,
  // or another after that one has ended.
  void stop();
  // The requested mode; kAuto stays kAuto. Any thread.
  IsolationMode mode() const { return mode_; }

  // Any thread. kAuto: it is not chosen yet.
  IsolationMode chosen() const { return chosen_; }
  ComputeMode compute() const { return compute_with(chosen_, compute_); }
  // What limits compute if the mode is mode(). Any thread.
  ComputeMode wanted_compute() const { return compute_with(mode_, compute_); }
  // Why kAuto is not the driver, one sentence without its full stop; empty: it is, or the mode is
  // another one. Any thread.
  std::string fallback() const;
  // Why this card must not be offered: a container on it would have no limit. One sentence; empty:
  // there is no reason. Logs a new problem. Blocks while the driver does. Any thread. `shared` is
  // what every container with a card gets.
  std::string problem_of(const FoundCard& card, const Edits& shared);
  // The last self test of the library on each card; empty if the library is not chosen. Any thread.
  std::map<CardUuid, SelfTest> self_tests();
  // What enforces shares, without ShareLimits::before_start. After choose(); any thread.
  ShareLimits limits() const;
  // Checks that MPS can limit a container that is about to start, makes its pages, and sets the
  // compute modes of its cards. Errors: it must not start; one sentence. Blocks while the driver
  // does. Any thread.
  Result<void> before_start(const Record& record);
  // Whether containers with parts of several cards do not start. Any thread.
  bool parts_of_one_card() const;
  // The record of a container was removed. Any thread.
  void on_removed(const AllocationId& id);

  // Any thread gets them, whatever is chosen; their headers say which thread may call what.
  LibraryLimits& library() { return library_; }
  MpsLimits& mps() { return mps_; }

 private:
  void settle(IsolationMode mode, const std::string& reason);

  const IsolationOptions options_;
  const std::function<std::vector<CardFacts>()> cards_of_node_;
  std::atomic<IsolationMode> mode_;
  std::atomic<ComputeMode> compute_;
  std::atomic<IsolationMode> chosen_ = IsolationMode::kAuto;
  DriverLimits driver_;
  LibraryLimits library_;
  MpsLimits mps_;
  mutable Mutex mutex_;
  std::string fallback_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
