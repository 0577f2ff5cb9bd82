// One node: its cards, disk, plugin process and kubelet. kubelet is a model of what matters here:
// it admits pods by the sum of devices, allocates devices, calls the plugin before each start of a
// container, and ends the containers of deleted pods some time after their deletion.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kube/objects/objects.h"
#include "common/kube/watch/reflector.h"
#include "test/simulation/invariants.h"
#include "test/simulation/plan.h"
#include "test/simulation/plugin_process.h"

namespace mgpu::simulation {

class Node {
 public:
  struct World {
    kube::MemoryApiServer& server;
    Invariants& invariants;
    const Contract& contract;
  };
  // `folder` is an empty folder for its disk.
  Node(World world, const std::string& name, const std::string& folder);
  ~Node();

  const std::string& name() const { return name_; }
  FaultQueue& plugin_faults() { return plugin_faults_; }
  FaultQueue& kubelet_faults() { return kubelet_faults_; }
  // Null where the process does not run.
  Link* plugin_link() { return plugin_ ? &plugin_->link() : nullptr; }
  Link* kubelet_link() { return kubelet_link_.get(); }

  void kill_plugin();
  // A second process starts and serves kubelet; after `time` it ends, or the first one does.
  void replace_plugin(bool successor_ends, Duration time);
  void restart_kubelet();
  void lose_power();
  // Of a pod whose containers run; kubelet starts them again.
  void crash_containers(int pod);
  // By a program that is none of ours.
  void put_spec_back();
  // The MPS daemon of the card and its clients end; it runs again after `time`.
  void end_mps(int card, Duration time);
  // The plugin, kubelet and MPS restart, and the containers of a pod crash meanwhile. kubelet does
  // not call a plugin that has not registered since.
  void restart_services(int pod, Duration mps_ends);
  void freeze_kubelet(Duration time);
  // The machine with all its processes.
  void pause(Duration time);
  // Writes fail for this long.
  void fail_disk(Duration time);
  void repair_disk() { disk_.set_failing(false); }
  void set_card_healthy(int card, bool healthy);
  // Creates the Node object.
  void create_object();
  // The containers of the pod end by themselves, and it succeeds.
  void finish(const PodUid& uid);
  // The pods whose containers do not run.
  std::vector<PodUid> not_started() const;

 private:
  // A container with devices.
  struct Container {
    std::string name;
    std::vector<std::string> ids;
    std::string allocation;
    bool started = false;
    bool has_record = false;         // on disk
    std::vector<CardIndex> cards{};  // with which it started
    // After a call of the plugin, until the runtime creates it: how often another program had
    // replaced the CDI spec. Negative: the call was left out.
    std::optional<int> prepared{};

    void set_ended() {
      started = false;
      prepared.reset();
    }
  };
  struct PodState {
    PodRef ref;
    std::vector<Container> containers;
    bool ending = false;
    // Deleted at the API server while its containers run: kubelet lists it no longer, and its
    // devices are free.
    bool forgotten = false;
  };

  bool plugin_answers() const { return plugin_ && !unregistered_ && plugin_->answers_kubelet(); }
  std::unique_ptr<PluginProcess> new_plugin();
  void start_plugin();
  void on_registered(int plugin);
  bool runs(int plugin) const;
  void end_plugin(int plugin);
  void start_plugin_later();
  void start_kubelet();
  void boot();
  void on_pod(const kube::Pod& pod);
  void admit(const kube::Pod& pod);
  bool allocate(const kube::Pod& pod, PodState& state);
  void start_containers_later(const PodUid& uid, Duration delay);
  void start_containers(const PodUid& uid);
  bool prepare(Container& container);
  void create_container(const PodUid& uid);
  void forget(const PodUid& uid);
  void end_later(const PodUid& uid);
  void end(const PodUid& uid);
  void forget_containers(const PodUid& uid);
  void crash(const PodUid& uid);
  std::vector<PodUid> running() const;
  bool mps_answers(CardIndex card) const;
  void write_checkpoint() const;
  void start_process(const PodUid& uid) const;
  void end_process(const PodUid& uid) const;
  void publish_devices();
  void repeat_last_write(const kube::Pod& pod);
  // Repeats a write until the server has answered it, or kubelet is started again.
  void write(const kube::Request& request);
  Result<std::vector<plugin::ContainerDevices>> list_devices() const;
  Executor& executor() { return world_.server.executor(); }
  Duration any_delay(int most_ms);
  // In this time as kubelet sees it.
  void kubelet_after(Duration delay, std::function<void()> task);
  Task guarded(std::function<void()> task) { return callbacks_.wrap(std::move(task)); }

  const World world_;
  const std::string name_;
  Disk disk_;
  SimulatedCards cards_;
  Disk run_;  // in memory
  FaultQueue plugin_faults_;
  FaultQueue kubelet_faults_;
  int plugins_ = 0;
  std::unique_ptr<PluginProcess> plugin_;    // that kubelet calls
  std::unique_ptr<PluginProcess> starting_;  // beside it, until kubelet knows it
  std::unique_ptr<PluginProcess> replaced_;  // which kubelet called before
  int specs_put_back_ = 0;
  bool unregistered_ = false;  // no plugin has registered since kubelet was started again
  std::array<Instant, kCardsPerNode> mps_starts_{};
  bool has_power_ = true;
  Instant disk_fails_until_{};
  // Of the tasks that a restarted kubelet does again.
  ProcessClock kubelet_clock_;
  std::unique_ptr<Link> kubelet_link_;
  std::unique_ptr<kube::Reflector> reflector_;
  std::map<PodUid, PodState> pods_;
  // The status of pods that were refused or have ended, which kubelet does not run again.
  std::map<PodUid, kube::Request> done_;
  CallbackGuard callbacks_;
};

}  // namespace mgpu::simulation
