// The collections that the extender watches, and what their objects change.
#pragma once

#include <array>
#include <functional>
#include <utility>

#include "common/kube/transport.h"
#include "common/program/service_routes.h"
#include "extender/bind/binder.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/probe.h"
#include "extender/requeue/requeue.h"
#include "extender/verbs/verbs.h"
#include "extender/watched.h"

namespace mgpu::extender {

class Watches {
 public:
  // What the objects change. All of it outlives the watches.
  struct Dependencies {
    kube::Transport& transport;
    const VerbContext& verbs;
    Binder& binder;
    DisruptionBudgets& budgets;
    Requeue& requeue;
    Probe& probe;
    // After a list of nodes or pods, on the transport's executor.
    std::function<void()> on_listed;
  };
  explicit Watches(Dependencies dependencies) : dependencies_(std::move(dependencies)) {}

  // Begins to list all but the pods.
  void start();
  Watched& pods() { return pods_; }
  // Any thread, like those below. Verbs wait for nodes and pods alone: budgets only order the
  // victims of preemption, and without nominations cards are only not reserved for pods that
  // preempt.
  bool listed() const { return nodes_.listed() && pods_.listed(); }
  // Adds what is not listed, cannot be read, or fails.
  void report(Readiness& readiness) const;
  void update_metrics() const;

 private:
  Watched watch_nodes();
  Watched watch_pods();
  Watched watch_budgets();
  Watched watch_nominations();

  const Dependencies dependencies_;
  Watched nodes_ = watch_nodes();
  Watched pods_ = watch_pods();
  Watched budgets_watch_ = watch_budgets();
  Watched nominations_ = watch_nominations();
  const std::array<const Watched*, 4> all_ = {&nodes_, &pods_, &budgets_watch_, &nominations_};
};

}  // namespace mgpu::extender
