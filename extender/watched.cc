#include "extender/watched.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/kube/limits.h"

namespace mgpu::extender {

kube::ReflectorHandlers Watched::handlers() {
  return {.on_problem = [this](const std::string& problem) { on_problem(problem); },
          .on_unreadable = [this](const std::string& why) { note_unreadable(why); },
          .on_change = [this] { on_change(); }};
}

void Watched::note_unreadable(const std::string& why) {
  ++unreadable_;
  probe_.unreadable_object(name_);
  if (unreadable_told_.size() >= kube::kUnreadableRemembered) unreadable_told_.clear();
  if (!unreadable_told_.insert(why).second) return;
  log_warn("object from the API server is ignored", {{"problem", why}});
}

std::string Watched::problem() const {
  const MutexLock lock(mutex_);
  return troubled() ? problem_ : "";
}

bool Watched::troubled() const {
  return !problem_.empty() && transport_.executor().now() - problem_at_ <= reflector_.silent_for();
}

// The first change is a relist.
void Watched::on_change() {
  if (std::exchange(told_, false)) log_info("API server answers again", {{"resource", name_}});
  events_.on_change();
  if (!listed_.exchange(true)) events_.on_listed();
}

void Watched::on_problem(const std::string& problem) {
  probe_.watch_problem(name_);
  if (!std::exchange(told_, true)) {
    log_warn("cannot follow the API server, trying again", {{"problem", problem}});
  } else {
    log_debug("still cannot follow the API server", {{"problem", problem}});
  }
  const MutexLock lock(mutex_);
  problem_ = problem;
  problem_at_ = transport_.executor().now();
}

}  // namespace mgpu::extender
