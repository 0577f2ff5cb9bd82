// The same tree as json_tree.h's, several times faster, of what API servers send as a rule. Home of
// simdjson in this folder. For json_tree.cc only. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "common/kube/json_tree.h"

namespace mgpu::kube {

// Empty for text that is not JSON, and for what is rare: a number in the tree that is no 64-bit
// integer, nesting close to limits::kJsonDepthMax.
std::optional<JsonNode> parse_plain_json(std::string_view json, JsonFilter wanted);

}  // namespace mgpu::kube
