#include "plugin/agent/kubelet_devices.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/allocation/offer.h"

namespace mgpu::plugin {

namespace {

std::string socket_prefix(std::string resource) {
  std::ranges::replace(resource, '/', '-');
  return resource;
}

void log_registration(const std::string& resource, const Result<void>& outcome) {
  if (outcome) {
    log_info("device plugin registered", {{"resource", resource}});
  } else {
    log_warn("device plugin not registered, retrying",
             {{"resource", resource}, {"problem", outcome.error().message}});
  }
}

}  // namespace

KubeletDevices::KubeletDevices(Options options, const Contract& contract, const Records& records,
                               const Pods& pods)
    : options_(std::move(options)), contract_(contract), records_(records), pods_(pods) {}

// The first list is complete. After an empty one, kubelet would treat each device of the next list
// as new and compare it with all devices of its pods (devicemanager/manager.go,
// genericDeviceUpdateCallback), which takes minutes for a long list.
Result<void> KubeletDevices::start(const std::vector<CardFacts>& cards,
                                   const DevicePluginHandlers& handlers) {
  const Share held = held_on_unhealthy_cards(cards);
  if (options_.memory) {
    if (auto fits = check_memory_list(offered(cards, held).memory.value()); !fits) return fits;
  }
  auto core =
      make(contract_.core_resource, offered_core_ids(cards, records_.all(), held), handlers);
  std::unique_ptr<DevicePlugin> memory;
  if (options_.memory) {
    DevicePluginHandlers counting = handlers;
    counting.allocate = [](const auto&) { return AllocateResponse{}; };
    counting.pre_start = {};
    memory = make(contract_.memory_resource, offered_memory_ids(cards, held), std::move(counting));
  }
  const MutexLock lock(mutex_);
  core_ = std::move(core);
  memory_ = std::move(memory);
  return {};
}

std::unique_ptr<DevicePlugin> KubeletDevices::make(const std::string& resource,
                                                   std::vector<std::string> ids,
                                                   DevicePluginHandlers handlers) const {
  handlers.on_registration = [resource,
                              then = handlers.on_registration](const Result<void>& outcome) {
    log_registration(resource, outcome);
    if (then) then(outcome);
  };
  return std::make_unique<DevicePlugin>(
      DevicePluginOptions{resource, options_.folder, socket_prefix(resource)}, std::move(ids),
      std::move(handlers));
}

// The plugins are destroyed without the lock, since they wait for calls that take it.
void KubeletDevices::stop(bool leaves) {
  std::unique_ptr<DevicePlugin> core;
  std::unique_ptr<DevicePlugin> memory;
  {
    const MutexLock lock(mutex_);
    core = std::move(core_);
    memory = std::move(memory_);
  }
  for (auto* plugin : {&core, &memory}) {
    if (leaves && *plugin) (*plugin)->leave_to_successor();
    plugin->reset();
  }
}

void KubeletDevices::offer(const std::vector<CardFacts>& cards) {
  const Share held = held_on_unhealthy_cards(cards);
  const MutexLock lock(mutex_);
  MGPU_DEBUG_CHECK(!memory_ || (core_ && options_.memory),
                   "devices of mgpu-memory are offered beside those of mgpu-core");
  if (core_) core_->set_devices(offered_core_ids(cards, records_.all(), held));
  if (!memory_) return;
  if (auto fits = check_memory_list(offered(cards, held).memory.value()); !fits) {
    log_error("devices of mgpu-memory not updated", {{"problem", fits.error().message}});
  } else {
    memory_->set_devices(offered_memory_ids(cards, held));
  }
}

bool KubeletDevices::registered() const {
  const MutexLock lock(mutex_);
  return core_ && core_->registered() && (!memory_ || memory_->registered());
}

std::map<std::string, bool> KubeletDevices::registered_by_resource() const {
  std::map<std::string, bool> registered;
  const MutexLock lock(mutex_);
  if (core_) registered[contract_.core_resource] = core_->registered();
  if (memory_) registered[contract_.memory_resource] = memory_->registered();
  return registered;
}

Share KubeletDevices::held_on_unhealthy_cards(const std::vector<CardFacts>& cards) const {
  if (std::ranges::all_of(cards, &CardFacts::healthy)) return {};
  return pods_.listed() ? held_on_unhealthy(cards, pods_.all(), contract_)
                        : held_on_unhealthy(cards, records_.bound());
}

Share KubeletDevices::held(const CardUuid& card, const std::vector<CardFacts>& cards) const {
  Share held;
  for (const Record& record : records_.bound()) {
    const auto grant = std::ranges::find(record.cards, card, &CardGrant::uuid);
    if (grant != record.cards.end()) held += grant->share;
  }
  const auto at = std::ranges::find(cards, card, &CardFacts::uuid);
  if (at != cards.end() && pods_.listed()) {
    held.core = std::max(held.core, core_held(at->index, pods_.all(), contract_));
  }
  return held;
}

}  // namespace mgpu::plugin
