// Checks who else can give cards of this node to containers, and whether the container runtime
// resolves the names of our CDI devices.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/kube/event_recorder.h"
#include "common/kube/transport.h"
#include "plugin/agent/access_facts.h"
#include "plugin/node/other_access.h"

namespace mgpu::plugin {

class AccessCheck {
 public:
  struct Dependencies {
    kube::Transport& transport;
    kube::EventRecorder& events;
    std::function<bool()> stopping;  // queries end early
    std::function<void()> on_cdi_changed;
  };

  AccessCheck(AccessPlace place, std::chrono::milliseconds period, Dependencies dependencies);

  // Checks, reports what is new, and returns the time until the next check. Blocks as
  // access_facts() does. One thread.
  std::chrono::milliseconds run();
  void set_cdi_problem(const std::string& problem);

  // Any thread. Not set before the first check.
  std::optional<AccessReport> report() const;
  // Returns why the container runtime does not resolve the names of our CDI devices; empty: it
  // does. No card is offered and no container starts meanwhile, since the runtime would start it
  // without its cards and report no error. Any thread.
  std::string cdi_problem() const;

 private:
  void report_new(const AccessReport& before, const AccessReport& now);

  const AccessPlace place_;
  const std::chrono::milliseconds period_;
  const Dependencies dependencies_;
  mutable Mutex mutex_;
  std::optional<AccessReport> report_ MGPU_GUARDED_BY(mutex_);
  std::string cdi_problem_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
