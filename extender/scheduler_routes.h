// kube-scheduler's calls over HTTP: read the message, ask the verb, write the answer, and tell
// the probe and the log.
//
//   POST <prefix>/filter | prioritize | prioritize-non-gpu | preempt | bind
//     prioritize-non-gpu is for an entry of its own in kube-scheduler's configuration, which sends
//     every pod and may be ignored: so that pods without cards never depend on the extender
//     200  the protocol's answer, with its own Error where there is one
//     400  {"error": sentence}: the message cannot be read
//     503  {"error": sentence}: not ready yet; kube-scheduler tries the pod again
#pragma once

#include <functional>
#include <string>

#include "common/base/executor.h"
#include "common/http/router.h"
#include "extender/bind/binder.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/probe.h"
#include "extender/requeue/rejection_delay.h"
#include "extender/requeue/scheduler_requeue.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

// All references outlive the router's use.
struct SchedulerRoutes {
  Ledger& ledger;
  const DisruptionBudgets& budgets;
  const Settings& settings;
  Binder& binder;
  RejectionDelay& held;
  SchedulerRequeue& requeue;
  Probe& probe;
  const Executor& clock;
  std::function<bool()> ready;  // any thread

  void add_to(http::Router& router, const std::string& prefix) const;
};

}  // namespace mgpu::extender
