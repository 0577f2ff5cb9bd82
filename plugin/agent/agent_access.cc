// The agent's check for other software that can give cards of this node to containers.
#include <algorithm>

#include "common/base/log.h"
#include "plugin/agent/access_facts.h"
#include "plugin/agent/agent.h"

namespace mgpu::plugin {

std::chrono::milliseconds Agent::check_other_access() {
  const auto stopping = [this] {
    const MutexLock lock(mutex_);
    return stopping_;
  };
  const AccessFacts facts = access_facts({.node = settings_.node,
                                          .runtime_socket = settings_.runtime_socket,
                                          .cdi_folder = settings_.cdi_folder,
                                          .node_root = settings_.node_root},
                                         transport_, stopping);
  if (stopping()) return settings_.access_period;
  const AccessReport report = access_report(facts);
  report_other_access(access().value_or(AccessReport{}), report);
  if (facts.cdi_problem) set_cdi_problem(*facts.cdi_problem);
  {
    const MutexLock lock(mutex_);
    access_ = report;
  }
  publish_node();
  return report.unknown.empty() && cdi_problem().empty()
             ? settings_.access_period
             : std::min(settings_.access_period, kAccessRetry);
}

// Logs what is new, and records an Event for each new way to the cards.
void Agent::report_other_access(const AccessReport& before, const AccessReport& now) {
  for (const OtherAccess& one : now.found) {
    if (std::ranges::find(before.found, one) != before.found.end()) continue;
    log_warn("other software can give cards of this node to containers",
             {{"reason", one.reason}, {"problem", one.message}});
    events_.on_node({Event::Type::kWarning, "MGPUOtherAccess", one.message});
  }
  for (const std::string& problem : now.unknown) {
    if (std::ranges::find(before.unknown, problem) != before.unknown.end()) continue;
    log_warn("the check for other access to the cards is incomplete", {{"problem", problem}});
  }
}

void Agent::set_cdi_problem(const std::string& problem) {
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
  inventory_.read_soon();
}

std::string Agent::cdi_problem() const {
  const MutexLock lock(mutex_);
  return cdi_problem_;
}

std::optional<AccessReport> Agent::access() const {
  const MutexLock lock(mutex_);
  return access_;
}

}  // namespace mgpu::plugin
