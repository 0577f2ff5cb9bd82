// What is known of one Allocate, from then until its pod is gone. Pure values.
//
//   Allocate                PreStartContainer                  pod gone from API and kubelet
//   --------> Allocated ----------------------> Bound ... ---------------------------------->
//   (gone)
//                 |                               ^  |  container restarts: the same cards
//                 |                               +--+
//                 +-- pod never started: gone likewise
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/gpu_request.h"
#include "plugin/allocation/device_set.h"

namespace mgpu::plugin {

// "<hash of the devices>-<nonce>": unlike the hash alone it never comes twice, so that nothing
// written for an earlier pod with the same devices can be taken for this one's.
using AllocationId = Name<struct AllocationIdTag>;

// REQUIRES: `nonce` is letters and digits.
AllocationId allocation_id(const DeviceSet& devices, std::string_view nonce);
// Of the form above; nothing else becomes part of a path or a CDI name.
bool valid(const AllocationId& id);

// Which container has the devices.
struct Owner {
  PodRef pod;
  PodUid uid;
  std::string container;
  ContainerKind kind = ContainerKind::kApp;
  std::int32_t position = 0;  // in spec order among the pod's containers that ask for cards
  bool operator==(const Owner&) const = default;
};

// A piece of one card.
struct CardGrant {
  CardIndex index;
  CardUuid uuid;
  Share share;
  bool operator==(const CardGrant&) const = default;
};

struct Record {
  AllocationId id;
  DeviceSet devices;
  std::optional<Owner> owner;    // none: allocated, not started yet
  std::vector<CardGrant> cards;  // ascending by index; empty until bound

  bool bound() const { return owner.has_value(); }
  bool operator==(const Record&) const = default;
};

}  // namespace mgpu::plugin
