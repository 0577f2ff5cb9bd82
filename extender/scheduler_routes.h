// kube-scheduler's calls over HTTP: each reads the message, runs the verb, writes the reply, and
// updates metrics and log.
//
//   POST <prefix>/filter | prioritize | prioritize-non-gpu | preempt | bind
//     200  the reply of the protocol, with an error of its own where there is one
//     400  {"error": sentence}: the message is malformed
//     503  {"error": sentence}: the extender is not ready, or another replica decides;
//          kube-scheduler tries the pod again, on another connection
//
// prioritize-non-gpu is for a second entry in kube-scheduler's configuration, which is sent every
// pod and may be ignored when it fails: non-GPU pods then never depend on the extender.
#pragma once

#include <functional>
#include <string>

#include "common/base/executor.h"
#include "common/http/router.h"
#include "extender/bind/binder.h"
#include "extender/card_preemption.h"
#include "extender/probe.h"
#include "extender/requeue/requeue.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

// What the verbs work on. All references outlive the router's use.
struct SchedulerVerbs {
  const VerbContext& context;
  Binder& binder;
  Requeue& requeue;
  CardPreemption& preemption;
  Probe& probe;
  const Executor& clock;
  Executor& delayed;            // runs filters that were delayed; binds do not wait for it
  std::function<bool()> ready;  // any thread, like the next one
  std::function<void(const http::Respond& respond)> refuse;  // answers 503 where it is not ready
};

void add_scheduler_routes(http::Router& router, const std::string& prefix, SchedulerVerbs verbs);

}  // namespace mgpu::extender
