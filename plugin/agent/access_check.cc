#include "plugin/agent/access_check.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace mgpu::plugin {

using kube::Event;

AccessCheck::AccessCheck(AccessPlace place, std::chrono::milliseconds period,
                         Dependencies dependencies)
    : place_(std::move(place)), period_(period), dependencies_(std::move(dependencies)) {}

std::chrono::milliseconds AccessCheck::run() {
  const AccessFacts facts = access_facts(place_, dependencies_.transport, dependencies_.stopping);
  if (dependencies_.stopping()) return period_;
  const AccessReport found = access_report(facts);
  report_new(report().value_or(AccessReport{}), found);
  if (facts.cdi_problem) set_cdi_problem(*facts.cdi_problem);
  {
    const MutexLock lock(mutex_);
    report_ = found;
  }
  // What is unknown, or keeps the node from offering cards, is asked again soon.
  const bool complete = found.unknown.empty() && cdi_problem().empty();
  return complete ? period_ : std::min(period_, kAccessRetry);
}

// Logs what is new, and records an Event for each new way to the cards.
void AccessCheck::report_new(const AccessReport& before, const AccessReport& now) {
  for (const OtherAccess& one : now.found) {
    if (std::ranges::find(before.found, one) != before.found.end()) continue;
    log_warn("other software can give cards of this node to containers",
             {{"reason", one.reason}, {"problem", one.message}});
    dependencies_.events.on_node({Event::Type::kWarning, "MGPUOtherAccess", one.message});
  }
  for (const std::string& problem : now.unknown) {
    if (std::ranges::find(before.unknown, problem) != before.unknown.end()) continue;
    log_warn("the check for other access to the cards is incomplete", {{"problem", problem}});
  }
}

void AccessCheck::set_cdi_problem(const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (cdi_problem_ == problem) return;
    cdi_problem_ = problem;
  }
  if (problem.empty()) {
    log_info("the container runtime has CDI now, and cards are offered", {});
  } else {
    log_error("no card is offered, since the container runtime does not give cards to containers",
              {{"problem", problem}});
  }
  dependencies_.on_cdi_changed();
}

std::string AccessCheck::cdi_problem() const {
  const MutexLock lock(mutex_);
  return cdi_problem_;
}

std::optional<AccessReport> AccessCheck::report() const {
  const MutexLock lock(mutex_);
  return report_;
}

}  // namespace mgpu::plugin
