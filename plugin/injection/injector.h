// Adds edits to containers through the container runtime, in one of two ways. The response to
// Allocate is final before the cards are known; PreStart creates what it refers to.
//
//   CDI            Allocate names a device "<domain>/mgpu=<allocation>", which PreStart adds to our
//                  one spec file. A runtime that does not see it yet fails to create the container,
//                  and kubelet retries.
//   device nodes   Allocate names the host folder <run>/allocations/<allocation>/dev, whose device
//                  nodes the runtime creates in /dev; PreStart creates the folder. For runtimes
//                  without CDI. It mounts the driver's files as they were at Allocate. Mounts and
//                  environment that depend on the card are not possible.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "plugin/allocation/edits.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// Any thread.
class Injector {
 public:
  virtual ~Injector() = default;

  // "cdi", "device-nodes"
  virtual std::string name() const = 0;
  virtual AllocateResponse allocate_response(const Record& record) const = 0;
  // Sets what every container gets in addition to its own edits, from the next change on:
  // `with_hooks` if the injector has the runtime run hooks, else `shared`.
  virtual void set_shared(const Edits& shared, const Edits& with_hooks) = 0;
  // Restores edits that an earlier process injected, so that the next change keeps them.
  virtual void restore(const AllocationId& id, const Edits& edits) = 0;
  // True if something was written, which the runtime may need a moment to see. Errors: the disk
  // fails; then nothing has changed.
  virtual Result<bool> inject(const AllocationId& id, const Edits& edits) = 0;
  virtual void remove(const AllocationId& id) = 0;
};

// kubelet passes the same response of Allocate to the runtime whenever the container starts again,
// also after the runtime or --injection has changed. The last letter of an allocation's nonce says
// what its response refers to, so that this is known wherever the id is.
enum class InjectionKind { kCdi, kDeviceNodes };
std::string nonce_of(InjectionKind kind, std::string_view random);
// None: the id was made by an earlier version.
std::optional<InjectionKind> kind_of(const AllocationId& id);

// Answers Allocate in the way `now`, and injects the edits of each allocation in the way of its
// response; those of earlier versions in both. An allocation of a CDI device is refused where `now`
// is kDeviceNodes, since a runtime without CDI would start the container without its cards.
std::unique_ptr<Injector> injector_of_kinds(InjectionKind now, std::unique_ptr<Injector> cdi,
                                            std::unique_ptr<Injector> nodes);

// `folder` such as "/var/run/cdi".
std::unique_ptr<Injector> cdi_injector(const Contract& contract, const std::string& folder);
// `folder` such as "/run/mgpu". `node_root` is where this process sees the node's files.
std::unique_ptr<Injector> node_injector(const std::string& folder,
                                        const std::string& node_root = "/");

}  // namespace mgpu::plugin
