// PATCH of the in-memory API server: RFC 6902 (JSON patch) and RFC 7386 (merge patch). A strategic
// merge patch is a merge patch in which the elements of status.conditions are found by their type;
// other lists are replaced, and of the directives only "$patch": "delete" of a condition is known.
// Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "common/kube/memory/json.h"

namespace mgpu::kube {

// Applies the patch in `body` to `object`, which is spoilt where that fails. Refusals: 415 for
// another content type, 400 for a patch that is not one, 422 for one that does not apply or makes
// too much of the object.
std::optional<Refusal> apply_patch(Json& object, std::string_view content_type,
                                   std::string_view body);

}  // namespace mgpu::kube
