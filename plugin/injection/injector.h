// Adds edits to containers through the container runtime, by a CDI spec. The response to Allocate
// is final before the cards are known: it names a device "<domain>/mgpu=<allocation>", which
// PreStart adds to our one spec file. A runtime that does not see it yet fails to create the
// container, and kubelet retries. A runtime without CDI would start it without its cards
// (AccessCheck::cdi_problem).
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "plugin/allocation/edits.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// Any thread.
class Injector {
 public:
  virtual ~Injector() = default;

  virtual AllocateResponse allocate_response(const Record& record) const = 0;
  // Sets what every container gets in addition to its own edits, from the next change on.
  virtual void set_shared(const Edits& shared) = 0;
  // Restores edits that an earlier process injected, so that the next change keeps them.
  virtual void restore(const AllocationId& id, const Edits& edits) = 0;
  // True if something was written, which the runtime may need a moment to see. Errors: the disk
  // fails, or kubelet was given no CDI device for the container; then nothing has changed.
  virtual Result<bool> inject(const AllocationId& id, const Edits& edits) = 0;
  virtual void remove(const AllocationId& id) = 0;
};

// `folder` such as "/var/run/cdi".
std::unique_ptr<Injector> cdi_injector(const Contract& contract, const std::string& folder);

}  // namespace mgpu::plugin
