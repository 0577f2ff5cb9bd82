#include "extender/watched.h"

#include <utility>

#include "common/base/log.h"

namespace mgpu::extender {

kube::ReflectorEvents Watched::reflector_events() {
  return {.on_problem = [this](const std::string& problem) { on_problem(problem); },
          .on_unreadable = [this](const std::string& why) { note_unreadable(why); },
          .on_change = [this] { on_change(); }};
}

void Watched::restart() {
  listed_ = false;
  reflector_.restart();
}

void Watched::note_unreadable(const std::string& why) {
  probe_.unreadable_object(name_);
  if (unreadable_.note(why)) log_warn("object from the API server is ignored", {{"problem", why}});
}

std::string Watched::problem() const {
  const MutexLock lock(mutex_);
  const Duration age = transport_.executor().now() - problem_at_;
  return age <= reflector_.silent_for() ? problem_ : "";
}

// The first change is a relist.
void Watched::on_change() {
  if (std::exchange(failing_, false)) log_info("API server answers again", {{"resource", name_}});
  events_.on_change();
  if (!listed_.exchange(true)) events_.on_listed();
}

void Watched::on_problem(const std::string& problem) {
  probe_.watch_problem(name_);
  // One warning for an outage, not one for each try.
  const bool first = !std::exchange(failing_, true);
  (first ? log_warn : log_debug)("list or watch failed, trying again", {{"problem", problem}});
  const MutexLock lock(mutex_);
  problem_ = problem;
  problem_at_ = transport_.executor().now();
}

}  // namespace mgpu::extender
