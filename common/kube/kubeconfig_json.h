// YAML as JSON text. Pure; any thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "common/base/result.h"

namespace mgpu::kube {

// As kubectl reads YAML: numbers, true, false and null without quotes keep their type. Errors, as
// the end of a sentence: too deep, too long (aliases can make a short text long), no text as a
// name.
Result<std::string> json_of(const YAML::Node& node);

}  // namespace mgpu::kube
