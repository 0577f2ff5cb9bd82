// The record of one Allocate, which is kept until its pod is gone. Pure.
//
//   Allocate                PreStartContainer              pod gone, no processes
//   --------> Allocated ----------------------> Bound ... ----------------------------> (removed)
//                 |                               ^  |  container restarts: the same cards
//                 |                               +--+
//                 +-- pod never started: removed as well
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/gpu_request.h"
#include "plugin/allocation/device_set.h"

namespace mgpu::plugin {

// "<hash of the devices>-<nonce>". Unlike the hash alone it never occurs twice, so that files of an
// earlier pod with the same devices cannot be mistaken for those of this one.
using AllocationId = Name<struct AllocationIdTag>;

// REQUIRES: `nonce` is lower-case letters and digits.
AllocationId allocation_id(const DeviceSet& devices, std::string_view nonce);
// Whether `id` has the form above. Only valid ids become part of a path or a CDI name.
bool valid(const AllocationId& id);

// The container that has the devices.
struct Owner {
  PodRef pod;
  PodUid uid;
  std::string container;
  ContainerKind kind = ContainerKind::kApp;
  std::int32_t position = 0;  // in spec order among the pod's containers that request cards
  bool operator==(const Owner&) const = default;
};

// A share of one card.
struct CardGrant {
  CardIndex index;
  CardUuid uuid;
  Share share;
  bool operator==(const CardGrant&) const = default;
};

struct Record {
  AllocationId id;
  DeviceSet devices;
  std::optional<Owner> owner;    // none: allocated, but not started yet
  std::vector<CardGrant> cards;  // ascending by index; empty until bound

  bool bound() const { return owner.has_value(); }
  bool operator==(const Record&) const = default;
};

// Whether the container has a part of one card, below 100 %. With 100 % of a card nobody else is on
// it.
bool is_part_of_one_card(const Record& record);
// Whether the container has several cards, and below 100 % of one of them.
bool has_parts_of_several_cards(const Record& record);

}  // namespace mgpu::plugin
