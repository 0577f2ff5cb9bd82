// Nodes and requests as text, so that a test case fits on one line.
//
//   node      := name ":" (" " card)*
//   card      := index "[" share (" of " memory)? (" " fact)* "]"
//   share     := core "/" memory                 the free share; without "of" the card is empty
//   fact      := "expected=" share | "used=" share | "model=" text | "uuid=" text
//              | "unhealthy" | "uncertain" | "cordoned"       "used=" may exceed the capacity
//
//   "n1: 0[100/32510] 1[40/8000 of 32510 expected=10/500]"
//
//   request   := container (" " container)*
//   container := ("init:" | "side:")? (share | "whole") ("x" cards)?
//
//   "init:80/4000 30/1024 wholex2"               containers are named c0, c1, ...
//
//   placement := cards (" | " cards)*            "0 | 0,2"
//
// Text that does not match the grammar aborts the test program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"

namespace mgpu::test {

Share share_of(std::string_view text);
extender::Node node_of(std::string_view text);
GpuRequest request_of(std::string_view text);
Placement placement_of(std::string_view text);

std::string text_of(const Share& share);
std::string text_of(const Placement& placement);
// "0=30/1024 2=100/32510"
std::string text_of(const std::vector<extender::CardHold>& holds);

}  // namespace mgpu::test
