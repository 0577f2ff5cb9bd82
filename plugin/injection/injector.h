// Puts edits into containers through the runtime, in one of two ways. What Allocate answers is
// fixed before the cards are known; what it points at is made in PreStart.
//
//   CDI            Allocate names a device "<domain>/mgpu=<allocation>" that exists once PreStart
//   has
//                  written it to our one spec file. A runtime that does not see it yet fails to
//                  create the container, and kubelet tries again.
//   device nodes   Allocate names the host folder <run>/allocations/<allocation>/dev, whose device
//                  nodes a runtime puts under /dev; PreStart makes them. For runtimes without CDI.
//                  Environment that depends on the card, and mounts, cannot be given this way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "plugin/allocation/edits.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// Functions may be called on any thread.
class Injector {
 public:
  virtual ~Injector() = default;

  // "cdi", "device-nodes"
  virtual std::string name() const = 0;
  virtual AllocateResponse allocate_response(const Record& record) const = 0;
  // What every container gets beside its own edits, from the next change on.
  virtual void set_shared(const Edits& shared) = 0;
  // What an earlier process injected and may still be needed: the next change keeps it.
  virtual void restore(const AllocationId& id, const Edits& edits) = 0;
  // True when something had to be written: the runtime may need a moment to see it. Errors: of the
  // disk; then nothing has changed.
  virtual Result<bool> inject(const AllocationId& id, const Edits& edits) = 0;
  virtual void remove(const AllocationId& id) = 0;
};

// `folder` such as "/var/run/cdi".
std::unique_ptr<Injector> cdi_injector(const Contract& contract, const std::string& folder);
// `folder` such as "/run/mgpu".
std::unique_ptr<Injector> node_injector(const std::string& folder);

}  // namespace mgpu::plugin
