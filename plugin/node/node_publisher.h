// Keeps the Node object of this node equal to the last report: the annotation mgpu-cards, the
// conditions MGPUReady and MGPUCardsExclusive, the capacity of mgpu-memory unless kubelet publishes
// it, and the taint mgpu-needs-cpu. It writes only what differs, and writes it again when another
// writer changes it.
//
//             node read            differs
//   Unknown --------------> Idle ------------> Writing ---- fails ----> Waiting
//                                                |                         |
//                                                +-- succeeds --> Idle <---+
//
// A report and a change of the node are compared in Idle. Waits grow from failure to failure. The
// first change by another writer is corrected at once, later ones with growing delays.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/mutex.h"
#include "common/contract/contract.h"
#include "common/kube/transport.h"
#include "common/kube/watch/reflector.h"
#include "common/kube/watch/unreadable_objects.h"
#include "plugin/allocation/node_use.h"

namespace mgpu::plugin {

struct NodeReport {
  std::vector<CardFacts> cards;
  CardLinks links{};  // of `cards`; empty if they are not known
  NodeProfile profile{};
  // Capacity of mgpu-memory in MiB. Not set if kubelet publishes it.
  std::optional<std::int64_t> memory;
  bool taint = false;  // Otherwise the node keeps no taint mgpu-needs-cpu.
  // What pods request, on which the taint depends. Not set: it stays as it is.
  std::optional<NodeUse> use;
  enum class Ready { kTrue, kFalse, kUnknown };
  Ready ready = Ready::kUnknown;
  std::string reason;   // CamelCase: "CardsReady", "NoCards", "NoDriver", "KubeletAbsent"
  std::string message;  // one sentence
  // The condition MGPUCardsExclusive. Not set: it stays as it is.
  std::optional<kube::Condition> exclusive{};
  bool operator==(const NodeReport&) const = default;
};

struct NodeDifference;

class NodePublisher {
 public:
  // `transport` outlives the publisher. `on_problem` is called on the executor with one sentence
  // about a failure (the node does not exist, access is denied); an equal sentence is not repeated
  // until an operation succeeds. It must not destroy the publisher. `now` returns the time as RFC
  // 3339 in UTC; the default is the system's clock.
  NodePublisher(NodeName node, Contract contract, kube::Transport& transport,
                std::function<void(const std::string&)> on_problem,
                std::function<std::string()> now = {});

  void publish(NodeReport report);  // any thread
  // Leaves the Node object as it is until the next report. Any thread.
  void withdraw();
  // The Node object matches the last report. Any thread.
  bool settled() const;
  // The API server has no such Node object. Any thread.
  bool node_missing() const { return missing_; }
  // The node has the label mgpu-release-driver with the value "true". Any thread.
  bool release_requested() const { return release_requested_; }
  // How many times the Node object could not be read. Any thread.
  std::uint64_t unreadable() const { return unreadable_.count(); }
  // The labels of the node as last read; none before. Any thread.
  std::optional<kube::StringMap> labels() const;
  // Why no cards may be offered, as in given_by_another(); empty before the node was read. Any
  // thread.
  std::string given_by_another() const;

 private:
  enum class Phase { kIdle, kWriting, kWaiting };

  // Delays that double from kube::kBackoffFirst to kube::kBackoffMax, each between half of that and
  // all of it. They start again after kube::kBackoffResetAfter without a delay.
  class Backoff {
   public:
    // `random` is uniform in [0, 1).
    Duration next(Instant now, double random);
    void reset() { base_ = Duration(0); }

   private:
    Duration base_{0};
    Instant last_{};  // end of the last delay
  };

  kube::Consumer<kube::Node> consumer();
  void on_report(NodeReport report, std::uint64_t generation);
  void on_node(kube::Node node);
  void on_node_deleted();
  void compare();
  kube::Request next_write(const NodeDifference& difference) const;
  void write(const NodeDifference& difference);
  void on_write_response(const kube::Response& response);
  void fail(const std::string& problem, Duration retry_after = {});
  void wait(Duration delay);
  void report_once(std::set<std::string>& reported, const std::string& problem) const;
  Executor& executor() const { return transport_.executor(); }

  const NodeName node_name_;
  const Contract contract_;
  kube::Transport& transport_;
  const std::function<void(const std::string&)> on_problem_;
  const std::function<std::string()> now_;

  // Reports are numbered, so that the end of an older write does not settle a newer report.
  std::atomic<std::uint64_t> published_ = 0;
  std::atomic<std::uint64_t> settled_ = 0;  // the report that the Node object matches; 0: none
  std::atomic<bool> missing_ = false;
  std::atomic<bool> release_requested_ = false;
  mutable Mutex labels_mutex_;
  std::optional<kube::StringMap> labels_ MGPU_GUARDED_BY(labels_mutex_);
  std::string given_by_another_ MGPU_GUARDED_BY(labels_mutex_);

  // Used on the executor only.
  Phase phase_ = Phase::kIdle;
  std::optional<NodeReport> report_;
  std::uint64_t generation_ = 0;  // number of `report_`
  std::optional<kube::Node> node_;
  // The watch lags behind the responses to writes. Until it has delivered this resourceVersion, the
  // nodes it delivers are older than `node_`. Versions are only compared for equality.
  std::string awaited_version_;
  std::set<std::string> versions_during_write_;
  bool relisted_during_write_ = false;
  std::uint64_t written_ = 0;  // number of the report that is being written
  int writes_ = 0;             // accepted for this report since it was last settled
  bool writes_taint_ = false;  // the write in progress
  Instant taint_allowed_{};    // the next change of the taint
  Backoff failures_;
  Backoff corrections_;
  Instant correction_allowed_{};
  kube::UnreadableObjects unreadable_;
  std::set<std::string> read_problems_;  // reported; the same for writes below
  std::set<std::string> write_problems_;
  CallbackGuard callbacks_;
  kube::Reflector reflector_;  // destroyed first, since its handlers use all other members
};

}  // namespace mgpu::plugin
