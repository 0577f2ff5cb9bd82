#include "plugin/containers/allocate_handler.h"

#include <utility>

#include "common/base/log.h"

namespace mgpu::plugin {

AllocateHandler::AllocateHandler(Records& records, Injector& injector,
                                 std::function<std::string()> nonce)
    : records_(records), injector_(injector), nonce_(std::move(nonce)) {}

Result<AllocateResponse> AllocateHandler::allocate(const std::vector<std::string>& ids) {
  auto devices = DeviceSet::of(ids);
  if (!devices) return devices.error();
  Record record;
  record.id = allocation_id(*devices, nonce_());
  record.devices = std::move(*devices);
  if (auto kept = records_.keep(record); !kept) return kept.error();
  // kubelet's checkpoint has the allocation too, so that a lost record can be rebuilt.
  if (auto saved = records_.save(record, Durability::kProcess); !saved) {
    log_warn("allocation record not saved", {{"problem", saved.error().message}});
  }
  return injector_.allocate_response(record);
}

}  // namespace mgpu::plugin
