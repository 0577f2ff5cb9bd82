// One node: its cards, disk, plugin process and kubelet. kubelet is a model of what matters here:
// it admits pods by the sum of devices, allocates devices, calls the plugin before each start of a
// container, and ends the containers of deleted pods some time after their deletion.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/kube/objects.h"
#include "common/kube/reflector.h"
#include "test/simulation/plugin_process.h"
#include "test/simulation/truth.h"

namespace mgpu::simulation {

class Node {
 public:
  struct World {
    kube::MemoryApiServer& server;
    Truth& truth;
    const Contract& contract;
  };
  // `folder` is an empty folder for its disk.
  Node(World world, const std::string& name, const std::string& folder);
  ~Node();

  const std::string& name() const { return name_; }
  Fates& plugin_fates() { return plugin_fates_; }
  Fates& kubelet_fates() { return kubelet_fates_; }
  Link* plugin_link() { return plugin_ ? &plugin_->link() : nullptr; }
  Link* kubelet_link() { return kubelet_link_.get(); }

  void kill_plugin();
  void restart_kubelet();
  void lose_power();
  void set_disk_failing(bool failing) { disk_.set_failing(failing); }
  void set_card_healthy(int card, bool healthy);
  // Creates the Node object.
  void create_object();
  // The containers of the pod end by themselves, and it succeeds.
  void finish(const PodUid& uid);

 private:
  // A container with devices.
  struct Container {
    std::string name;
    std::vector<std::string> ids;
    std::string allocation;
    bool started = false;
  };
  struct PodState {
    PodRef ref;
    std::vector<Container> containers;
    bool ending = false;
    // Deleted at the API server while its containers run: kubelet lists it no longer, and its
    // devices are free.
    bool forgotten = false;
  };

  void start_plugin_later();
  void start_kubelet();
  void on_pod(const kube::Pod& pod);
  void admit(const kube::Pod& pod);
  bool allocate(const kube::Pod& pod, PodState& state);
  void start_containers_later(const PodUid& uid, Duration delay);
  void start_containers(const PodUid& uid);
  void forget(const PodUid& uid);
  void end_later(const PodUid& uid);
  void end(const PodUid& uid);
  void write_checkpoint() const;
  void start_process(const PodUid& uid) const;
  void end_process(const PodUid& uid) const;
  void publish_devices();
  void set_status(const PodRef& pod, const PodUid& uid, const std::string& status);
  // Repeats a write until the server has answered it.
  void write(const kube::Request& request);
  Result<std::vector<plugin::ContainerDevices>> list_devices() const;
  Executor& executor() { return world_.server.executor(); }
  Duration any_delay(int most_ms);
  Task guarded(std::function<void()> task) { return callbacks_.wrap(std::move(task)); }

  const World world_;
  const std::string name_;
  Disk disk_;
  SimulatedCards cards_;
  SimulatedInjector injector_;
  Fates plugin_fates_;
  Fates kubelet_fates_;
  int plugins_ = 0;
  std::unique_ptr<PluginProcess> plugin_;
  std::unique_ptr<Link> kubelet_link_;
  std::unique_ptr<kube::Reflector> reflector_;
  std::map<PodUid, PodState> pods_;
  // Pods that were refused or have ended: kubelet does not run them again.
  std::set<PodUid> done_;
  CallbackGuard callbacks_;
};

}  // namespace mgpu::simulation
