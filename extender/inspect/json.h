// How the views write JSON: members in the order in which they are set.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "common/http/message.h"

namespace mgpu::extender {

using Json = nlohmann::ordered_json;

// Text that is not UTF-8 gets U+FFFD in its place.
http::Response json_response(const Json& json);

Json indices(std::span<const CardIndex> cards);
std::string_view kind_name(ContainerKind kind);

}  // namespace mgpu::extender
