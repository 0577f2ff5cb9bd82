// Nodes as the web page gets them: JSON arrays without names of members, because 5,000 nodes with 8
// cards and their pods are sent to each page. Pure.
//
//   node := [name, problem, [card*], [pod*], kept?]        kept: a cordon and taints, if any
//   card := [index, uuid, model, flags, core, memory, health]
//           flags: 1 healthy, 2 uncertain, 4 cordoned, 8 reserved, 16 MIG device
//           health: what is wrong, or empty
//   core, memory := capacity, used, free, expected         four elements each, as in /inspect
//   pod  := [namespace, name, phase, priority, drift, [hold*]]     phase: 0 assumed, 1 bound
//   hold := [card, core, memory]
#pragma once

#include <string>

#include "extender/ledger/ledger.h"

namespace mgpu::extender {

void append_node(std::string& out, const NodeName& name, const NodeView& view);

}  // namespace mgpu::extender
