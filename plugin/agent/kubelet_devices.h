// The devices that kubelet is offered: those of mgpu-core, one for each percent of the cards, by
// which containers are recognised, and, if kubelet is to publish mgpu-memory, one for each MiB,
// which kubelet only counts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/contract/contract.h"
#include "plugin/cards/card_source.h"
#include "plugin/containers/pods.h"
#include "plugin/kubelet/device_plugin.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class KubeletDevices {
 public:
  struct Options {
    std::string folder;  // of kubelet.sock
    bool memory = false;
  };

  // All outlive it.
  KubeletDevices(Options options, const Contract& contract, const Records& records,
                 const Pods& pods);

  // Registers with kubelet. `handlers`: of mgpu-core; on_registration is called for both. Errors:
  // kubelet could not receive the devices of mgpu-memory; one sentence.
  Result<void> start(const std::vector<CardFacts>& cards, const DevicePluginHandlers& handlers);
  // Waits for calls of kubelet. `leaves`: another process is registered.
  void stop(bool leaves);

  // Any thread.
  void offer(const std::vector<CardFacts>& cards);
  // Kubelet reads all devices.
  bool registered() const;
  std::map<std::string, bool> registered_by_resource() const;
  // Returns what pods hold of unhealthy cards now.
  Share held_on_unhealthy_cards(const std::vector<CardFacts>& cards) const;
  // Returns what containers hold of the card. Pods that are bound and have not started yet count
  // with their compute, which their devices are taken from.
  Share held(const CardUuid& card, const std::vector<CardFacts>& cards) const;
  bool publishes_memory() const { return options_.memory; }

 private:
  std::unique_ptr<DevicePlugin> make(const std::string& resource, std::vector<std::string> ids,
                                     DevicePluginHandlers handlers) const;

  const Options options_;
  const Contract& contract_;
  const Records& records_;
  const Pods& pods_;
  mutable Mutex mutex_;
  std::unique_ptr<DevicePlugin> core_ MGPU_GUARDED_BY(mutex_);
  std::unique_ptr<DevicePlugin> memory_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
