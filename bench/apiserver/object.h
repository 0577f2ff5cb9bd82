// What the in-memory API server requires of an object, and how it changes one: patches, types of
// the members that Kubernetes reads, defaults, canonical quantities, validation. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "bench/apiserver/json.h"

namespace mgpu::kube {

// What the functions below throw, apart from apply_patch.
struct ObjectProblem {
  bool malformed = false;  // a wrong type: 400; otherwise the object is invalid: 422
  std::string message;     // "spec.containers[0].image: Required value"
};

// Checks that every member that is read here has the type that Kubernetes gives it.
void check_types(const Json& object);
// Sets defaults and rewrites quantities. REQUIRES: check_types passed.
void set_defaults(const ServedKind& kind, Json& object);
// REQUIRES: set_defaults passed.
void validate(const ServedKind& kind, const Json& object);
// Checks the fields that no update may change. REQUIRES: both objects were validated.
void validate_update(const ServedKind& kind, const Json& before, const Json& after);

// Applies the body of a PATCH to `object`: RFC 6902 (JSON patch) and RFC 7386 (merge patch). A
// strategic merge patch is a merge patch in which the elements of status.conditions are found by
// their type; other lists are replaced, and "$patch": "delete" of a condition is the only
// directive. Throws a Refusal, and may have changed `object` then: 415 for another content type,
// 400 for a body that is not a patch, 422 for a patch that does not apply or makes the object too
// large or too deep.
void apply_patch(Json& object, std::string_view content_type, std::string_view body);

// The text that is stored, with the values of the fields that selectors may name.
StoredObject to_stored(const ServedKind& kind, const Json& object, std::uint64_t version);

}  // namespace mgpu::kube
