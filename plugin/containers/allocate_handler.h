// kubelet's Allocate for mgpu-core: makes an allocation for the requested devices. It uses memory
// and the local disk only, because kubelet admits one pod after another, and an error fails the pod
// permanently.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/injection/injector.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// Any thread.
class AllocateHandler {
 public:
  // Both references outlive the handler. `nonce` returns unique text of letters and digits.
  AllocateHandler(Records& records, Injector& injector, std::function<std::string()> nonce);

  // Errors: invalid ids, too many allocations.
  Result<AllocateResponse> allocate(const std::vector<std::string>& ids);

 private:
  Records& records_;
  Injector& injector_;
  const std::function<std::string()> nonce_;
};

}  // namespace mgpu::plugin
