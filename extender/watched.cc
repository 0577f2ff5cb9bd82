#include "extender/watched.h"

#include <utility>

#include "common/limits.h"
#include "common/log.h"

namespace mgpu {

Watched::Watched(const char* name, kube::Resource resource, kube::Transport& transport,
                 Probe& probe, Events events)
    : name_(name),
      transport_(transport),
      probe_(probe),
      events_(std::move(events)),
      reflector_(name, std::move(resource), transport,
                 {.on_event = [this](const kube::WatchEvent& event) { on_event(event); },
                  .on_problem = [this](const std::string& problem) { on_problem(problem); },
                  .on_unreadable = [this](const std::string& why) { note_unreadable(why); }}) {}

void Watched::note_unreadable(const std::string& why) {
  ++unreadable_;
  probe_.unreadable_object(name_);
  if (unreadable_told_.size() >= limits::kUnreadableRemembered) unreadable_told_.clear();
  if (!unreadable_told_.insert(why).second) return;
  log_warn("object from the API server is ignored", {{"problem", why}});
}

std::string Watched::problem() const {
  const std::lock_guard lock(mutex_);
  return troubled() ? problem_ : "";
}

bool Watched::troubled() const {
  return !problem_.empty() && transport_.executor().now() - problem_at_ <= reflector_.silent_for();
}

void Watched::on_event(const kube::WatchEvent& event) {
  if (std::exchange(told_, false)) log_info("API server answers again", {{"resource", name_}});
  events_.on_event(event);
  if (event.kind != kube::WatchEvent::Kind::kRelistEnd) return;
  if (!listed_.exchange(true)) events_.on_listed();
}

void Watched::on_problem(const std::string& problem) {
  probe_.watch_problem(name_);
  if (!std::exchange(told_, true)) {
    log_warn("cannot follow the API server, trying again", {{"problem", problem}});
  } else {
    log_debug("still cannot follow the API server", {{"problem", problem}});
  }
  const std::lock_guard lock(mutex_);
  problem_ = problem;
  problem_at_ = transport_.executor().now();
}

}  // namespace mgpu
