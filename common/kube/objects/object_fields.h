// What the readers of objects have in common. Pure; any thread.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/objects/json_value.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// metadata, for JsonValue::read. `to` outlives it.
JsonField metadata_of(Metadata& to);

// Reads a text that is one JSON object. Errors: the first problem.
Result<void> read_object(std::string_view json, const std::function<void(JsonValue& root)>& read);

}  // namespace mgpu::kube
