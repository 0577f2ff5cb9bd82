// What the readers of the scheduler's messages share. For this folder only.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu::extender {

// "request is not valid JSON: ..." in our words.
Error malformed(simdjson::error_code code);

// "NodeNames[3] is 17, expected a string"; `found` is JSON text, cut for the sentence.
Error unexpected(std::string_view field, std::string_view found, std::string_view expected);

// As encoding/json matches member names. `lower` is lower case.
bool equal_fold(std::string_view name, std::string_view lower);

// "NodeNames[3]"
std::string element_name(std::string_view field, std::size_t index);

}  // namespace mgpu::extender
