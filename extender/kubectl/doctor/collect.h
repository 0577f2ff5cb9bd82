// Collects the facts of an installation from its API server. What cannot be read is a fact without
// a value; nothing ends the collection.
#pragma once

#include <functional>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/installation.h"

namespace mgpu::kubectl {

// Sets everything but `replicas`, which need a way to the extender. The names in `facts` determine
// where to look. `clock` is the time of this machine.
void collect_facts(Api& api, const std::function<Time()>& clock, Facts& facts);

// Sets facts.replicas: what the extenders report on their inspection listeners. If one cannot be
// reached, each of its facts is unknown, with the reason.
void collect_replicas(Cluster& cluster, const ExtenderFlags& flags, Facts& facts);

// The rights that mgpu's service accounts need, asked with SubjectAccessReviews.
Fact<std::vector<Right>> collect_rights(Api& api, const Facts& facts);

// The configurations of kube-scheduler with several extenders that bind, with which it does not
// start.
Fact<std::vector<SchedulerConfig>> collect_scheduler_configs(Api& api, const Facts& facts);
// The static pods of kube-scheduler that have ended because of that, by their logs.
std::vector<std::string> collect_schedulers_with_two_binders(Api& api);

}  // namespace mgpu::kubectl
