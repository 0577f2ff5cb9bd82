// kubelet's Allocate for mgpu-core: a new allocation for the devices. Answers from memory and local
// disk, without waiting for anybody: kubelet admits one pod after another and an error would fail
// the pod for good.
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
  // Both outlive it. `nonce` gives letters and digits that have not come before.
  AllocateHandler(Records& records, Injector& injector, std::function<std::string()> nonce);

  // Errors: ids that cannot be, too many allocations.
  Result<AllocateResponse> allocate(const std::vector<std::string>& ids);

 private:
  Records& records_;
  Injector& injector_;
  const std::function<std::string()> nonce_;
};

}  // namespace mgpu::plugin
