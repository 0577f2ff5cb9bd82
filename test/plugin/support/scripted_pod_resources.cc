#include <memory>
#include <mutex>
#include <utility>

#include "test/plugin/support/scripted_parts.h"

namespace mgpu::test {

using namespace plugin;

struct ScriptedPodResources::Script {
  std::mutex mutex;
  std::string problem;  // protected by mutex, as the next
  std::vector<ContainerDevices> listed;
  int calls = 0;
};

namespace {

using Script = ScriptedPodResources::Script;

// The script of the client that is made next: a test has one.
std::shared_ptr<Script>& latest_script() {
  static std::shared_ptr<Script> latest;
  return latest;
}

std::shared_ptr<Script> new_script() {
  return latest_script() = std::make_shared<Script>();
}

}  // namespace
}  // namespace mgpu::test

// --- in the place of plugin/kubelet/pod_resources.cc ---------------------------------------------

namespace mgpu::plugin {

struct PodResources::State {
  std::shared_ptr<test::ScriptedPodResources::Script> script;
};

PodResources::PodResources(std::string) : state_(std::make_shared<State>(test::latest_script())) {}

PodResources::~PodResources() = default;

Result<std::vector<ContainerDevices>> PodResources::list(const std::string&,
                                                         std::chrono::milliseconds) {
  auto& script = *state_->script;
  const std::lock_guard lock(script.mutex);
  ++script.calls;
  if (!script.problem.empty()) return error(script.problem);
  return script.listed;
}

}  // namespace mgpu::plugin

namespace mgpu::test {

ScriptedPodResources::ScriptedPodResources() : script_(new_script()), client_("none") {}

ScriptedPodResources::~ScriptedPodResources() = default;

void ScriptedPodResources::list(const std::string& pod, const std::string& container,
                                const std::vector<std::string>& ids) {
  const std::lock_guard lock(script_->mutex);
  script_->listed.push_back({{"ml", pod}, container, DeviceSet::of(ids).value()});
}

void ScriptedPodResources::forget(const std::string& pod) {
  const std::lock_guard lock(script_->mutex);
  std::erase_if(script_->listed, [&](const auto& one) { return one.pod.name == pod; });
}

void ScriptedPodResources::fail(std::string problem) {
  const std::lock_guard lock(script_->mutex);
  script_->problem = std::move(problem);
}

int ScriptedPodResources::calls() const {
  const std::lock_guard lock(script_->mutex);
  return script_->calls;
}

}  // namespace mgpu::test
