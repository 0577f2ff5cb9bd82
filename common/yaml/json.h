// YAML as JSON text. Pure.
#pragma once

#include <string>

#include "common/yaml/value.h"

namespace mgpu::yaml {

// As kubectl reads YAML: numbers, true, false and null without quotes keep their type, and so do
// yes, no, on and off.
std::string json_of(const Value& value);

}  // namespace mgpu::yaml
