// What an object must be and becomes when the in-memory API server takes it in: types of the
// members that Kubernetes reads, defaults, canonical quantities, validation. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/kube/memory/json.h"

namespace mgpu::kube {

struct ObjectProblem {
  bool malformed = false;  // a wrong type: 400; else the object is invalid: 422
  std::string message;     // "spec.containers[0].image: Required value"
};

// Whether every member that is looked at here has the type that Kubernetes gives it.
std::optional<ObjectProblem> check_types(const Json& object);
// Fills in what is absent and rewrites quantities. REQUIRES: check_types passed.
std::optional<ObjectProblem> set_defaults(const ServedKind& kind, Json& object);
// REQUIRES: set_defaults passed.
std::optional<ObjectProblem> validate(const ServedKind& kind, const Json& object);
// Fields that no update may change. REQUIRES: both were validated.
std::optional<ObjectProblem> validate_update(const ServedKind& kind, const Json& before,
                                             const Json& after);

// The text that is kept, with the fields that selectors ask for.
StoredObject to_stored(const ServedKind& kind, const Json& object, std::uint64_t version);

// "namespace/name", or "name".
std::string object_key(std::string_view name_space, std::string_view name);

}  // namespace mgpu::kube
