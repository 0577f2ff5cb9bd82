// What the readers of kube-scheduler's messages share. For this folder only.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu::extender {

// "request is not valid JSON: ..."
Error malformed(simdjson::error_code code);

// "NodeNames[3] is "17", expected a string"; `found` is JSON text, and is cut where it is long.
Error unexpected(std::string_view field, std::string_view found, std::string_view expected);

// Compares the name of a member as encoding/json does. `lower` is in lower case.
bool equal_fold(std::string_view name, std::string_view lower);

// "NodeNames[3]"
std::string element_name(std::string_view field, std::size_t index);

}  // namespace mgpu::extender
